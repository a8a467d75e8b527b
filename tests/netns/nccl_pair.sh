# usage: tools/netns -n 2 --each nccl_pair.sh PAIR MESSAGES BYTES: the two ends of a connection over the network plugin for
# NCCL, which meet by a file in the folder of this run.
pair=$1
shift
exec "$pair" "$NETNS_HOST" "$(dirname "$NETNS_CONTROL")/handle" "$@"
