"""Part 9: operations by name: what agreeing costs, simulated to 1,024 ranks, and fused tensors beside one tensor."""

import math
import shlex
import statistics
import sys

from figures import plot
from figures.clusters import GUEST_RUN_LIMIT_S
from figures.runs import RANKS, ROOT, ROUNDS, at_least, at_most, remark, rows_of, show

SETS = MANY, MODEL = "1000x1024", "resnet50"
TIMELINE_ROUNDS = 5


def agreement_picture(path, rows):
    plot.curves(path, f"Agreeing on {rows[0]['tensors']} names, simulated", "ranks", "us", {
        "told to rank 0": [(row["ranks"], row["uncached_us"]) for row in rows],
        "response cache": [(row["ranks"], row["cached_us"]) for row in rows]})


def agreement_figures(runs, scratch):
    """The negotiators of the engine on a simulated network, 5 us on the way and 1 us of each end's time a message."""
    command = [str(runs.weft.parent / "bench_negotiate")]
    print(f"# {shlex.join(command)}", file=sys.stderr, flush=True)
    rows = rows_of(command)
    runs.tables.append(("bench_negotiate", rows))
    agreement_picture(scratch / "agreement.svg", rows)
    remark("picture: agreement.svg in the build folder")
    for row in rows:
        remark(f"{row['ranks']} ranks, {row['tensors']} names: {row['cached_us']:.0f} us by bits, "
               f"{row['uncached_us']:.0f} us without a cache")
    last = rows[-1]
    show(f"messages to rank 0 in a known cycle, {last['ranks']} ranks", str(last["coordinator_messages"]), "0",
         "names that all ranks know", last["coordinator_messages"] == 0)
    rounds = math.log2(last["ranks"])
    at_most(f"control bytes of a rank and cycle, {last['ranks']} ranks", last["control_bytes"],
            64 + 2 * last["tensors"] * rounds / 8, "64 bytes and 2 bits a name and round")
    by_ranks = {row["ranks"]: row for row in rows}
    few, many = by_ranks[32], by_ranks[1024]
    at_most("a known cycle, 1,024 ranks beside 32", many["cached_us"] / few["cached_us"], 2.2,
            f"log2: 2.0; without a cache {many['uncached_us'] / few['uncached_us']:.1f}")


def median_rows(found):
    """The rows of several runs, by set and way, with the medians of their numbers."""
    keys = [(row["set"], row["way"]) for row in found[0]]
    rows = {key: [row for run in found for row in run if (row["set"], row["way"]) == key] for key in keys}
    return {key: {name: statistics.median(row[name] for row in each) if isinstance(value, (int, float)) else value
                  for name, value in each[0].items()} for key, each in rows.items()}


def here(runs, transport, ranks=2):
    """`weft perf named` with both sets of tensors, several times."""
    commands = [[str(runs.weft), "perf", "named", "--ranks", str(ranks), "--transport", transport, "--tensors", name,
                 "--seconds", "2", "--json", "-"] for name in SETS]
    for command in commands:
        print(f"# {shlex.join(command)}", file=sys.stderr, flush=True)
    return [[row for command in commands for row in rows_of(command)] for _ in range(ROUNDS)]


def fusion_figures(runs):
    found = here(runs, "shm")
    runs.tables.append(("weft perf named, shm", found[-1]))
    rows = median_rows(found)
    at_most("1,000 tensors of 4 KiB in one group, shm", rows[MANY, "group"]["ratio"], 1.3, "one tensor of 4 MiB")
    remark(f"{rows[MODEL, 'neighbors']['ratio']:.2f} times as long as one tensor: the same to neighbors")
    at_least("ResNet-50's tensors by name, shm", 1 / rows[MODEL, "names"]["ratio"], 0.85,
             "bandwidth of one tensor of that size")
    at_most("submitting a tensor, us", max(row["submit_us"] for row in rows.values()), 1, "us, in C++")
    for network, runs_there in (("TCP", here(runs, "ucx")), ("Soft-RoCE", [guest(runs)])):
        rows = median_rows(runs_there)
        runs.tables.append((f"weft perf named, {network}", runs_there[-1]))
        for fused, unfused, what in (("names", "unfused", "allreduce"),
                                     ("neighbors", "unfused_neighbors", "neighbor_allreduce")):
            at_least(f"1,000 tensors of 4 KiB, fused, {what}, {network}",
                     rows[MANY, unfused]["p50_us"] / rows[MANY, fused]["p50_us"], 5, "unfused")


def set_figures(runs):
    """Of part 14: sets that are read where they are."""
    for ranks in RANKS:
        found = here(runs, "shm", ranks)
        runs.tables.append((f"weft perf named, {ranks} ranks", found[-1]))
        rows = median_rows(found)
        at_least(f"ResNet-50's tensors by name, shm, {ranks} ranks", 1 / rows[MODEL, "names"]["ratio"], 0.85,
                 "bandwidth of one tensor of that size")
        at_most(f"1,000 tensors of 4 KiB in one group, shm, {ranks} ranks", rows[MANY, "group"]["ratio"], 1.5,
                "one tensor of 4 MiB")


def timeline_figures(runs, scratch):
    """ResNet-50's tensors with a timeline and without one, in turn: the pace of the machine changes meanwhile."""
    command = [str(runs.weft), "perf", "named", "--ranks", "2", "--transport", "shm", "--tensors", MODEL, "--seconds",
               "1", "--json", "-"]
    traced = {"WEFT_TRACE": str(scratch / "trace-{rank}.json")}
    print(f"# WEFT_TRACE={traced['WEFT_TRACE']} {shlex.join(command)}", file=sys.stderr, flush=True)
    ratios = []
    for _ in range(TIMELINE_ROUNDS):
        took = [median_rows([rows_of(command, **settings)])[MODEL, "names"]["p50_us"]
                for settings in ({}, traced, {})]
        ratios.append(took[1] / statistics.mean((took[0], took[2])))
    at_most("ResNet-50's tensors by name, shm, with a timeline", statistics.median(ratios), 1.01, "without one")


def guest(runs):
    command = [str(ROOT / "tools" / "softroce"), "-t", str(GUEST_RUN_LIMIT_S), "-n", "2", "-r", "1", "--each",
               str(runs.weft), "perf", "named", "--transport", "ib", "--tensors", MANY, "--seconds", "20", "--json", "-"]
    print(f"# {shlex.join(command)}", file=sys.stderr, flush=True)
    return rows_of(command, GUEST_RUN_LIMIT_S + 10)


def part_9(runs, scratch):
    agreement_figures(runs, scratch)
    fusion_figures(runs)
    timeline_figures(runs, scratch)
