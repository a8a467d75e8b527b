"""Part 1: shared memory, beside a bare combine loop and Open MPI."""

import json
import subprocess
import sys

from figures.runs import SIZES, RANKS, K, M, RUN_LIMIT_S, size_text, show, at_least, more_than, at_most, say_distance


def shares(rows, what, relative_to):
    for row in rows:
        if row["bytes"] >= M:
            at_least(f"{what}, {size_text(row['bytes'])}", row["share"], 0.85, relative_to)


def speedups(rows, what, middle, relative_to):
    """`middle`: the factor asked for from 64 KiB to 4 MiB; elsewhere faster is enough."""
    for row in rows:
        name = f"{what}, {size_text(row['bytes'])}"
        if 64 * K <= row["bytes"] <= 4 * M and middle > 1:
            at_least(name, row["speedup"], middle, relative_to)
        else:
            more_than(name, row["speedup"], 1, relative_to)


def neighbor_figures(runs, ranks):
    common = ("neighbor_allreduce", "--ranks", str(ranks), "--sizes", SIZES)
    rows = runs.perf(*common, "--against", "openmpi")
    say_distance(f"{ranks} ranks, default buffers", rows)
    shares(rows, f"share of the limit, {ranks} ranks", "combine loop over the same segments")
    speedups(rows, f"speed, {ranks} ranks", 2, "Open MPI, Neighbor_allgather + weighted sum")
    rows = runs.perf(*common, "--against", "openmpi-huge")
    say_distance(f"{ranks} ranks, huge pages", rows)
    speedups(rows, f"speed, {ranks} ranks, its buffers huge", 1.5, "the same, glibc.malloc.hugetlb=1")


def private_figures(runs, ranks):
    rows = runs.perf("neighbor_allreduce", "--ranks", str(ranks), "--sizes", SIZES, "--memory", "private",
                     "--against", "openmpi")
    say_distance(f"{ranks} ranks, private memory", rows)
    shares(rows, f"share of the limit, private, {ranks} ranks", "process_vm_readv of the neighbors + combine")
    for row in rows:
        at_least(f"speed, private, {ranks} ranks, {size_text(row['bytes'])}", row["speedup"], 1,
                 "Open MPI, Neighbor_allgather + weighted sum")


def allreduce_figures(runs, ranks):
    rows = runs.perf("allreduce", "--ranks", str(ranks), "--sizes", SIZES, "--against", "openmpi")
    say_distance(f"{ranks} ranks, allreduce", rows)
    for row in rows:
        at_least(f"allreduce, {ranks} ranks, {size_text(row['bytes'])}", row["speedup"], 1, "MPI_Allreduce")


def dynamic_figures(runs, ranks):
    (row,) = runs.perf("neighbor_allreduce", "--ranks", str(ranks), "--sizes", "4", "--dynamic", "--seconds", "3")
    say_distance(f"{ranks} ranks, weights per call", [row])
    at_most(f"step with new weights, {ranks} ranks, 4 B", row["dynamic_ratio"], 1.2, "static step")
    show(f"allocations with new weights, {ranks} ranks", str(row["allocations"]), "0", "after the first use of a shape",
         row["allocations"] == 0)


def idle_figures(runs, ranks):
    (row,) = runs.perf("idle", "--ranks", str(ranks), "--seconds", "5")
    show(f"CPU of an idle engine, {ranks} ranks", f"{row['core_share']:.2%}", "< 1%", "one core, the busiest rank",
         row["core_share"] < 0.01)


def memory_figures(runs, scratch):
    path = scratch / "weft-memory.json"
    command = [str(runs.weft), "perf", "neighbor_allreduce", "--memory-use", "--json", str(path)]
    print(f"# {' '.join(command[1:4])}", file=sys.stderr, flush=True)
    subprocess.run(command, check=True, timeout=RUN_LIMIT_S, stdout=subprocess.DEVNULL)
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    path.unlink()
    runs.tables.append(("weft perf neighbor_allreduce --memory-use", rows))
    ring = [row for row in rows if row["graph"] == "ring"]
    per_peer = [row["endpoint_bytes"] / row["peers"] for row in rows]
    at_most(f"memory of a ring's rank, {ring[-1]['ranks']} ranks", ring[-1]["endpoint_bytes"] / ring[0]["endpoint_bytes"],
            1.0, f"{ring[0]['ranks']} ranks ({ring[0]['endpoint_bytes'] / K:.0f} KiB)")
    at_most("memory per peer, any graph and number of ranks", max(per_peer) / min(per_peer), 1.0,
            f"the least of them ({min(per_peer) / K:.0f} KiB)")


def part_1(runs, scratch):
    for ranks in RANKS:
        neighbor_figures(runs, ranks)
        private_figures(runs, ranks)
        allreduce_figures(runs, ranks)
        dynamic_figures(runs, ranks)
        idle_figures(runs, ranks)
    memory_figures(runs, scratch)
