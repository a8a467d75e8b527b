"""Part 2: TCP, rails and the other operations."""

import json
import os
import socket
import statistics
import subprocess

from figures.clusters import cluster_median_s
from figures.runs import RANKS, M, RUN_LIMIT_S, in_turn, ratio_of, size_text, at_least, at_most, say_distance

OPERATION_SIZES = "4,64,1K,4K,16K,64K,256K,1M,4M,16M"
OPERATIONS = ("allgather", "reduce_scatter", "alltoall", "broadcast")
WIRE_ROUNDS = 3


def operation_figures(runs, ranks):
    for operation in OPERATIONS:
        rows = runs.perf(operation, "--ranks", str(ranks), "--sizes", OPERATION_SIZES, "--against", "openmpi",
                         "--seconds", "0.5")
        say_distance(f"{operation}, {ranks} ranks", rows)
        for row in rows:
            at_least(f"{operation}, {ranks} ranks, {size_text(row['bytes'])}", row["speedup"], 1, "Open MPI")


def in_flight_figures(runs):
    (row,) = runs.perf("neighbor_allreduce", "--ranks", "4", "--transport", "ucx", "--sizes", "4K", "--in-flight",
                       "1000", "--seconds", "5")
    at_least("1,000 operations of 4 KiB in flight, 4 ranks, TCP", row["in_flight_speedup"], 5, "one at a time")


def rail_figures(runs):
    """Rates that leave half of two cores: TCP and shaping of all links together cost the rest."""
    operation = ("neighbor_allreduce", "--graph", "ring:style=2", "--sizes", "64M", "--seconds", "4")
    bits = 64 * M * 8

    def on(*rates):
        return lambda: cluster_median_s(runs, "netns", 4, rates, *operation)

    took = in_turn(one=on(500), two=on(500, 500), uneven=on(500, 250), fast=on(800), mixed=on(200, 800))
    at_least("one-peer exchange of 64 MiB, 4 hosts, 500 Mbit/s", bits / statistics.median(took["one"]) / 500e6, 0.93,
             "the line's rate")
    at_least("the same on two rails of 500 Mbit/s", ratio_of(took["one"], took["two"]), 1.9, "one rail")
    at_least("the same on rails of 500 and 250 Mbit/s", ratio_of(took["one"], took["uneven"]), 1.4, "the faster alone")
    at_least("the same on rails of 200 and 800 Mbit/s", ratio_of(took["fast"], took["mixed"]), 1, "the faster alone")


def ucx_perftest(test, size, iterations):
    """The last line of UCX's own measurement over TCP on the loopback: the typical and the overall figures."""
    environment = dict(os.environ, UCX_TLS="tcp", UCX_NET_DEVICES="lo", UCX_LOG_LEVEL="error")
    with socket.socket() as probe:  # a port that is free
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    with subprocess.Popen(["ucx_perftest", "-p", port], env=environment, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as server:
        try:
            words = ["ucx_perftest", "-p", port, "127.0.0.1", "-t", test, "-s", str(size), "-n", str(iterations),
                     "-w", "20"]
            for _ in range(50):  # until the server listens
                done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=False)
                if "Final" in done.stdout:
                    break
        finally:
            server.kill()
    return [float(word) for word in done.stdout[done.stdout.rindex("Final:"):].split()[1:]]


def wire_figures(runs):
    """Ours and UCX's in turn; medians of the rounds."""
    ours, peers = {}, {}
    for _ in range(WIRE_ROUNDS):
        done = subprocess.run([str(runs.weft.parent / "bench_wire")], capture_output=True, text=True, check=True,
                              timeout=RUN_LIMIT_S)
        for line in done.stdout.splitlines():
            row = json.loads(line)
            value = row["p50_us"] if row["op"] == "ping_pong" else row["GBps"]
            ours.setdefault((row["op"], row["bytes"]), []).append(value)
        peers.setdefault(("ping_pong", 8), []).append(ucx_perftest("ucp_am_lat", 8, 20_000)[2])
        for mib in (1, 4, 16):
            rate = ucx_perftest("ucp_am_bw", mib * M, 1024 // mib)[4] * M / 1e9
            peers.setdefault(("stream", mib * M), []).append(rate)
    rows = []
    for (op, size), values in sorted(ours.items()):
        own, peer = statistics.median(values), statistics.median(peers[op, size])
        rows.append({"op": op, "bytes": size, "ours": own, "theirs": peer, "ratio": own / peer})
        if op == "ping_pong":
            at_most("write with notice, 8 B, TCP on the loopback", own / peer, 1.2, "ucx_perftest ucp_am_lat")
        else:
            at_least(f"pieces, {size_text(size)}, TCP on the loopback", own / peer, 0.9, "ucx_perftest ucp_am_bw")
    runs.tables.append(("wire (us, GB/s), next to ucx_perftest", rows))


def part_2(runs, _scratch):
    wire_figures(runs)
    in_flight_figures(runs)
    rail_figures(runs)
    for ranks in RANKS:
        operation_figures(runs, ranks)
