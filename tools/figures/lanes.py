"""Part 7: one lane beside the commit before, two lanes beside one, and what lanes are worth where ports are many."""

import json
import shlex
import statistics
import subprocess
import sys

from figures.clusters import cluster_rows
from figures.guest import kept_figures
from figures.runs import M, RANKS, ROOT, RUN_LIMIT_S, at_least, at_most, in_turn, ratio_of, remark, rows_of, size_text

ROUNDS_OF_LANES = 5
SHARED_SIZES = "16M,64M"
LAB_MBIT = 500  # of each of two rails; together with the kernel's copies half of two cores
LAB_SIZES = "4,4K,64K,1M,4M,16M,64M"
PORTS_LANES = "1,2,4,8"


def bare_gain(runs):
    """What two threads of the engine's combine loop sum in the time of one thread."""
    limits, = rows_of([str(runs.weft), "perf", "limits", "--ranks", "2", "--json", "-"])
    one, two = limits["lane_gbyte_per_s"], limits["two_lanes_gbyte_per_s"]
    return two / one


def shared_sum_figures(runs):
    """The root works and the other rank waits; no rank is bound to a core."""
    gain = statistics.median(bare_gain(runs) for _ in range(ROUNDS_OF_LANES))
    remark(f"two threads of a bare combine loop: {gain:.2f} times one thread")
    for operation in ("reduce", "gather"):

        def on(lanes, operation=operation):
            command = [str(runs.weft), "run", "-n", "2", "--bind-to", "none", "--", str(runs.weft), "perf", operation,
                       "--memory", "private", "--lanes", str(lanes), "--sizes", SHARED_SIZES, "--seconds", "1", "--json", "-"]
            print(f"# {shlex.join(command)}", file=sys.stderr, flush=True)
            return lambda: [row["p50_us"] for row in rows_of(command)]

        took = in_turn(one=on(1), two=on(2))
        for place, size in enumerate((16 * M, 64 * M)):
            ours = ratio_of([times[place] for times in took["one"]], [times[place] for times in took["two"]])
            at_least(f"{operation}, private, {size_text(size)}, two lanes", ours / gain, 0.85,
                     f"gain {ours:.2f} over the bare loop's {gain:.2f}")


def lab_figures(runs):
    """Two hosts with a rank each and two rails."""

    def on(lanes):
        words = ("perf", "neighbor_allreduce", "--graph", "ring", "--ranks", "2", "--transport", "automatic", "--lanes",
                 str(lanes), "--sizes", LAB_SIZES, "--seconds", "1")
        return lambda: cluster_rows(runs, "netns", 2, (LAB_MBIT, LAB_MBIT), *words)

    took = in_turn(one=on(1), two=on(2))
    for place, first in enumerate(took["one"][0]):
        def of(side, key):
            return [rows[place][key] for rows in took[side]]

        size = size_text(first["bytes"])
        at_least(f"two hosts, two rails, {size}, two lanes", ratio_of(of("one", "p50_us"), of("two", "p50_us")), 1, "one lane")
        if first["bytes"] >= M:
            at_most(f"the same, CPU seconds per GiB, {size}", ratio_of(of("two", "cpu_s_per_GiB"), of("one", "cpu_s_per_GiB")),
                    1.15, "one lane")


def ports_figures(runs, scratch):
    """A simulated rank with eight ports of 400 Gbit/s. Its picture goes to the build folder."""
    picture = scratch / "lanes-8-ports.svg"
    cluster = str(ROOT / "examples" / "clusters" / "eight-ports.toml")
    words = [str(runs.weft), "predict", "--cluster", cluster, "--graph", "ring:style=1", "--operation", "neighbor_allreduce",
             "--sizes", "256M"]
    subprocess.run([*words, "--lanes", PORTS_LANES, "--title", "256 MiB to one neighbor, 8 ports of 400 Gbit/s", "--svg",
                    str(picture)], check=True, timeout=RUN_LIMIT_S, stdout=subprocess.DEVNULL)
    remark(f"picture: {picture.name} in the build folder")
    done = subprocess.run([*words, "--lanes", PORTS_LANES, "--json", "-"], check=True, timeout=RUN_LIMIT_S, capture_output=True,
                          text=True)
    wire_us = 256 * M / (8 * 400e9 / 8) * 1e6
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    for row in rows:
        remark(f"8 ports of 400 Gbit/s, 256 MiB, {row['lanes']} lanes: {row['us']:.0f} us; the wire alone: {wire_us:.0f} us")
    at_least("8 ports of 400 Gbit/s, 256 MiB, eight lanes", rows[0]["us"] / rows[-1]["us"], 7, "one lane")
    # What it takes to be within 15% of the wire: the rate at which each lane would have to combine.
    for lanes in (8, 16, 32, 64):
        rate = 2 * 256 * M / (1.15 * wire_us * 1e-6) / lanes / 1e9
        remark(f"within 15% of the wire: {lanes} lanes that combine {rate:.0f} GB/s each, in all {rate * lanes:.0f} GB/s")


def part_7(runs, scratch):
    ports_figures(runs, scratch)
    shared_sum_figures(runs)
    lab_figures(runs)
    if runs.baseline is None:
        print("# no --baseline DIR: one lane is not held against the commit before this part", flush=True)
        return
    for ranks in RANKS:
        kept_figures(runs, runs.baseline, "shm", ranks)
    kept_figures(runs, runs.baseline, "ucx", 2)
