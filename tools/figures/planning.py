"""Part 4: predictions, placement, the simulator."""

import collections
import json
import os
import shlex
import statistics
import subprocess
import sys

from figures.clusters import cluster_median_s, cluster_rows, write_cluster, GUEST_MBIT
from figures.runs import ROOT, K, M, RUN_LIMIT_S, in_turn, ratio_of, size_text, remark, show, at_least, more_than, at_most

# The rates leave half of two cores; in the guest of tools/softroce, two thirds of what it carries: it is asked.
NETNS_MBIT = 200
PREDICTED_SIZES = ("1M", "16M", "64M")
# Name, operation, words, rails.
PREDICTED = (("neighbor_allreduce", "neighbor_allreduce", ("--graph", "ring:style=2"), 1),
             ("ring allreduce", "allreduce", ("--algorithm", "ring"), 1),
             ("BCube allreduce", "allreduce", ("--algorithm", "bcube"), 2))


def measured_link(runs, cluster, mbit, scratch):
    """Gbit/s and latency of one rail as `weft map --measure` finds them, the median over both ways between two hosts."""
    path = scratch / "weft-link.toml"
    write_cluster(path, 2, [mbit / 1e3], 100)
    times = []
    kib = 4096 if mbit >= 50 else 512  # slow: seconds for the one, a hundred latencies and more for the other
    for size in ("4K", f"{kib}K"):
        (found,) = cluster_rows(runs, cluster, 2, (mbit,), "map", "--cluster", str(path), "--graph", "ring:style=2",
                                "--rails", "all", "--bytes", size, "--measure")
        times.append(statistics.median(edge["measured_us"] for edge in found["edges"]))
    small, large = times
    return (kib - 4) * K * 8 / (large - small) / 1e3, small


def predictions(runs, cluster, mbit_of_rail, sizes, scratch, traffic_mbit):
    """Name, bytes, predicted and measured microseconds of each operation and size. Rates by how many rails there are; each is
    measured for as long as a link needs for `traffic_mbit`."""
    links = {}
    path = scratch / "weft-cluster.toml"
    for name, operation, words, rails in PREDICTED:
        mbit = mbit_of_rail[rails]
        if mbit not in links:
            links[mbit] = measured_link(runs, cluster, mbit, scratch)
            gbit, latency_us = links[mbit]
            remark(f"{cluster}: links measured: {gbit * 1e3:.1f} Mbit/s of {mbit}, {latency_us:.0f} us")
        gbit, latency_us = links[mbit]
        write_cluster(path, 4, [gbit] * rails, latency_us)
        piece = {"netns": "512K", "softroce": "256K"}[cluster]  # the engine's by UCX and by RDMA; the file says neither
        for size in sizes:  # a run for each: the longest take minutes
            done = subprocess.run([str(runs.weft), "predict", "--cluster", str(path), "--rails", "all", "--operation",
                                   operation, *words, "--sizes", size, "--piece", piece, "--json", "-"],
                                  capture_output=True, text=True, check=True, timeout=RUN_LIMIT_S)
            (row,) = cluster_rows(runs, cluster, 4, (mbit,) * rails, "perf", operation, *words, "--sizes", size,
                                  "--seconds", str(traffic_mbit // mbit), "--transport", "automatic", "--ranks", "4")
            yield name, row["bytes"], json.loads(done.stdout)["us"], row["p50_us"]


def guest_rates(runs, seconds=15):
    """Rates with which all links of four hosts together stay below a third of what the guest's processors carry."""
    unshaped = 1000
    (row,) = cluster_rows(runs, "softroce", 4, (unshaped,), "perf", "neighbor_allreduce", "--graph", "ring:style=2",
                          "--sizes", "4M", "--seconds", str(seconds), "--transport", "automatic", "--ranks", "4")
    carries = 8 * row["bytes"] / row["p50_us"]
    rates = {rails: max(1, min(GUEST_MBIT, int(carries / 3 / rails))) for rails in (1, 2)}
    remark(f"softroce: four links carry {carries:.0f} Mbit/s each, shaped to {rates[1]}, eight to {rates[2]}")
    return rates


def prediction_figures(runs, cluster, mbit_of_rail, scratch, traffic_mbit):
    rows = []
    for name, size, predicted, took in predictions(runs, cluster, mbit_of_rail, PREDICTED_SIZES, scratch, traffic_mbit):
        error = abs(predicted - took) / took
        rows.append({"op": name, "bytes": size, "predicted us": predicted, "p50_us": took, "error": error})
        show(f"prediction, {cluster}, {name}, {size_text(size)}", f"{error:.1%}", "<= 15%",
             f"measured, {took / 1e3:.1f} ms", error <= 0.15)
    runs.tables.append((f"weft predict beside tools/{cluster}", rows))


def bcube_figures(runs):
    def on(rails, algorithm):
        return lambda: cluster_median_s(runs, "netns", 4, (NETNS_MBIT,) * rails, "allreduce", "--algorithm", algorithm,
                                        "--sizes", "64M", "--seconds", "1")

    took = in_turn(ring=on(1, "ring"), bcube=on(2, "bcube"))
    ideal = 2 * 64 * M * 8 * 3 / 4 / (2 * NETNS_MBIT * 1e6)
    at_least("BCube(2,2) allreduce of 64 MiB, two rails", ratio_of(took["ring"], took["bcube"]), 1.8, "a ring on one rail")
    at_least("the same", ideal / statistics.median(took["bcube"]), 0.9, "2 M (1 - 1/n) / (sum of B)")


# Every rank's one neighbor is on the other host: 0 and 2, 1 and 3.
ACROSS = "random_regular:d=1,seed=4"


def exchange_row(runs, mbit, operation, graph, *words):
    """`weft perf` of an exchange on 2 hosts x 2 ranks x 2 rails."""
    hosts = ("--hosts", "2") if operation.startswith("hierarchical") else ()
    (row,) = cluster_rows(runs, "netns", 2, (mbit, mbit), "perf", operation, "--graph", graph, *hosts, *words, "--ranks", "4",
                          "--transport", "automatic", ranks=2)
    runs.keep(f"tools/netns -n 2 -p 2 -r 2: weft perf {operation} --graph {graph}", row)
    return row


def bytes_between_hosts(row):
    """What each of two hosts of two ranks gave to the other in one operation, as its engine counts."""
    sent = row["network_bytes"]
    return sent[0] + sent[1], sent[2] + sent[3]


def hierarchical_figures(runs):
    """Both of degree 1: a rank has one neighbor, on the other host; a host has one neighbor, the other host."""
    rows = in_turn(
        flat=lambda: exchange_row(runs, NETNS_MBIT, "neighbor_allreduce", ACROSS, "--sizes", "32M", "--seconds", "1"),
        tiers=lambda: exchange_row(runs, NETNS_MBIT, "hierarchical_neighbor_allreduce", "ring", "--sizes", "32M",
                                   "--seconds", "1"))
    took = {name: [row["p50_us"] for row in found] for name, found in rows.items()}
    at_least("hierarchical exchange, 2 hosts x 2 ranks x 2 rails", ratio_of(took["flat"], took["tiers"]), 1.8,
             "the flat operation, both of degree 1")
    sent = {count / row["bytes"] for row in rows["tiers"] for count in bytes_between_hosts(row)}
    show("the same, bytes to the neighbor machine over M", ", ".join(f"{share:g}" for share in sorted(sent)), "1",
         "what the engine counts, each host and run", sent == {1})


def predict(runs, *words):
    """The rows of a `weft predict`, its processor seconds and the most memory that it had, in MiB."""
    command = [str(runs.weft), "predict", *words, "--json", "-"]
    print(f"# {shlex.join(command)}", file=sys.stderr, flush=True)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        text = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{shlex.join(command)}: exit status {process.returncode}")
    return [json.loads(line) for line in text.splitlines()], usage.ru_utime + usage.ru_stime, usage.ru_maxrss / K


def simulator_figures(runs, scratch):
    """Every rank is simulated, although they are alike."""
    path = scratch / "weft-many.toml"
    most_s, most_mib = 10, 2048
    for name, ranks, ranks_each, words in (
            ("BCube(11,4)", 11**4, 1, ("--operation", "allreduce", "--algorithm", "bcube")),
            ("BCube(10,4)", 10_000, 1, ("--operation", "allreduce", "--algorithm", "bcube")),
            ("exponential neighbors", 10_000, 1, ("--operation", "neighbor_allreduce")),
            ("halving-doubling", 10_000, 1, ("--operation", "allreduce", "--algorithm", "halving_doubling")),
            ("hierarchical", 10_000, 8, ("--operation", "allreduce", "--algorithm", "hierarchical"))):
        write_cluster(path, ranks // ranks_each, [100] * 4, 2, ranks_each)
        (row,), seconds, mib = predict(runs, "--cluster", str(path), *words, "--rails", "all", "--sizes", "64M",
                                       "--every-rank")
        show(f"simulating {name}, {row['ranks']} ranks, {row['messages'] / 1e6:.2f} M messages", f"{seconds:.1f} s",
             f"< {most_s} s", f"{mib:.0f} MiB, < {most_mib}", seconds < most_s and mib < most_mib)


def shape_figures(runs):
    ethernet = ("--cluster", str(ROOT / "examples" / "clusters" / "ethernet.toml"), "--graph", "one_peer_exponential")
    rows, _, _ = predict(runs, *ethernet, "--algorithm", "ring", "--sizes", "1M", "--ranks", "4,1024")
    us = {(row["operation"], row["ranks"]): row["us"] for row in rows}
    grows = us["allreduce", 1024] / us["allreduce", 4]
    flat = us["neighbor_allreduce", 1024] / us["neighbor_allreduce", 4]
    at_most("neighbor exchange, 1,024 ranks (BlueFog, Table I)", flat, 1.01, "4 ranks")
    more_than("ring allreduce, 1,024 ranks (the same)", grows, 10, "4 ranks")
    rows, _, _ = predict(runs, *ethernet, "--operation", "neighbor_allreduce", "--sizes", "100000000", "--ranks", "4,32",
                         "--compute", "310")
    at_most("an iteration of SGP, 32 nodes, 10 Gbit/s (Fig. 4b)", rows[1]["iteration_us"] / rows[0]["iteration_us"], 1.01,
            "4 nodes")


def map_of(runs, *words):
    """What `weft map` says."""
    command = [str(runs.weft), "map", *words, "--json", "-"]
    print(f"# {shlex.join(command)}", file=sys.stderr, flush=True)
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=RUN_LIMIT_S)
    return json.loads(done.stdout)


def most_on_one_interface(found):
    users = collections.Counter((rank["machine"], one["interface"]) for rank in found["ranks"] for one in rank["rails"])
    return max(users.values())


def nearness_figures(runs, scratch):
    """8gpu-8nic.xml is a machine like a DGX: pairs of GPUs and pairs of interfaces below a PCI switch each."""
    examples = ROOT / "examples"
    found = map_of(runs, "--cluster", str(examples / "clusters" / "two-leaves.toml"), "--graph", "ring")
    ranks = found["ranks"]
    near = sum(len(rank["rails"]) == 1 and "are below one PCI switch" in rank["reason"] for rank in ranks)
    alone = most_on_one_interface(found) == 1
    show("ranks on the interface near their GPU, 16 x 8", str(near), str(len(ranks)), "two-leaves.toml, one rank an interface",
         near == len(ranks) and alone)
    machine = f'[[machine]]\ncount = 2\nlike = "{examples / "machines" / "8gpu-8nic.xml"}"\n'
    rails = "".join(f'[[rail]]\nnics = ["mlx5_{r}"]\ngbit_per_s = 400\n' for r in range(8))
    less, cluster = scratch / "weft-less.toml", scratch / "weft-less-cluster.toml"
    cluster.write_text(f'{machine}{machine}name = "less"\ncorrect = "{less.name}"\n{rails}', encoding="utf-8")
    most = []
    for gone in range(8):
        less.write_text(f'[[nic]]\nname = "mlx5_{gone}"\nabsent = true\n', encoding="utf-8")
        most.append(most_on_one_interface(map_of(runs, "--cluster", str(cluster), "--graph", "ring")))
    show("most ranks on an interface, one of 8 removed", str(max(most)), "<= 2", "8gpu-8nic.xml, each of the 8 in turn",
         max(most) <= 2)


# Of 16 ranks.
PLACED = ("ring", "exponential", "symmetric_exponential", "hypercube", "grid", "tree", "star", "bcube:a=4", "fully_connected",
          "random_regular:d=3,seed=1", "erdos_renyi:p=0.3,seed=1")


def placement_figures(runs, scratch):
    """Identity's time over that of the seats found: 16 machines below 4 leaves, 4:1 oversubscribed, in two orders."""
    cluster = scratch / "weft-tree.toml"
    gains = {}
    for order, stride in (("leaf by leaf", 1), ("leaves in turn", 4)):
        write_cluster(cluster, 16, [100], 2)
        with cluster.open("a", encoding="utf-8") as file:
            file.write(f"[[rail.level]]\nmachines = 4\nstride = {stride}\noversubscription = 4\n")
        for graph in PLACED:
            placed = map_of(runs, "--cluster", str(cluster), "--graph", graph, "--place", "--swaps", "20000")["placement"]
            gains[graph, order] = placed["identity"]["us"] / placed["found"]["us"]
    relative_to = "identity; 4 leaves of 4 machines, 4:1"
    for graph, order in (("ring", "leaves in turn"), ("exponential", "leaf by leaf")):
        more_than(f"seats found, {graph}, {order}", gains[graph, order], 1, relative_to)
    at_least(f"the least gain, {len(PLACED)} graphs in both orders", min(gains.values()), 1, relative_to)


def part_4(runs, scratch):
    nearness_figures(runs, scratch)
    placement_figures(runs, scratch)
    bcube_figures(runs)
    hierarchical_figures(runs)
    simulator_figures(runs, scratch)
    shape_figures(runs)
    prediction_figures(runs, "netns", {1: NETNS_MBIT, 2: NETNS_MBIT}, scratch, 5 * NETNS_MBIT)
    prediction_figures(runs, "softroce", guest_rates(runs), scratch, 10 * GUEST_MBIT)
