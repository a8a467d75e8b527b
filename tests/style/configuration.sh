#!/bin/sh
# usage: configuration.sh WEFT DOCUMENT: is every line of `weft config --markdown` in the document, and
# no other row in the table of variables?
set -eu
table=$("$1" config --markdown)
documented=$(sed -n '/^| variable /,/^$/p' "$2" | grep '^|')
[ "$table" = "$documented" ] || {
  echo "$2 is not what \`weft config --markdown\` prints; it should have:"
  echo "$table"
  exit 1
}
