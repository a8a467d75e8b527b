"""Part 3: kernel RDMA in the guest of tools/softroce, beside perftest."""

import json
import shlex
import statistics
import subprocess
import sys

from figures.clusters import cluster_median_s
from figures.runs import ROOT, M, in_turn, ratio_of, size_text, at_least, at_most

# Per size; perftest takes as long. Pairs differ by a tenth from one to the next, their median over 15 by 2 in a hundred; with
# half the time, so with fewer operations than may be under way, by thrice that.
WIRE_SECONDS, WIRE_PAIRS = "8", "15"
WIRE_LIMIT_S = 900  # of the guest that measures them


def guest_rows(runs, *commands):
    """The rows of `weft perf wire` runs, one list per command, in one guest of tools/softroce."""
    wire = [[str(runs.weft), "perf", "wire", "--device", "rx_h0r0", "--peer-device", "rx_h1r0", *words, "--seconds",
             WIRE_SECONDS, "--rounds", WIRE_PAIRS, "--against", "perftest", "--json", "-"] for words in commands]
    script = " && ".join(shlex.join(words) for words in wire)
    command = [str(ROOT / "tools" / "softroce"), "-n", "2", "-r", "2", "-t", str(WIRE_LIMIT_S), "sh", "-c", script]
    print(f"# {shlex.join(command)}", file=sys.stderr, flush=True)
    done = subprocess.run(command, capture_output=True, text=True, timeout=WIRE_LIMIT_S + 10, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{shlex.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    runs.tables.append(("tools/softroce -n 2 -r 2: weft perf wire --against perftest", rows))
    return rows


def rdma_rail_figures(runs):
    """All that the hosts send together is a third of what the guest carries."""
    operation = ("neighbor_allreduce", "--graph", "ring:style=2", "--sizes", "16M", "--seconds", "14")
    bits = 16 * M * 8

    def on(*rates):
        return lambda: cluster_median_s(runs, "softroce", 2, rates, *operation)

    took = in_turn(one=on(40), two=on(40, 40), uneven=on(40, 20))
    at_least("neighbor_allreduce of 16 MiB, 40 Mbit/s, RDMA", bits / statistics.median(took["one"]) / 40e6, 0.93,
             "the line's rate")
    at_least("the same on two rails of 40 Mbit/s", ratio_of(took["one"], took["two"]), 1.9, "one rail")
    at_least("the same on rails of 40 and 20 Mbit/s", ratio_of(took["one"], took["uneven"]), 1.4, "the faster alone")


def part_3(runs, _scratch):
    wire_rdma_figures(runs)
    rdma_rail_figures(runs)


def wire_rdma_figures(runs):
    large = "64K,256K,1M,4M"
    rows = guest_rows(runs, ("--op", "write", "--sizes", large), ("--op", "read", "--sizes", large),
                      ("--op", "write", "--sizes", "8", "--depth", "1"),
                      ("--op", "write", "--sizes", "1K", "--list", "16"))
    for row in rows:
        size = size_text(row["bytes"])
        if row["depth"] == 1:
            at_most(f"latency of a write, {size}", row["ratio"], 1.15, row["peer"])
        elif row["list"] > 1:
            at_least(f"message rate of writes in lists, {size}", row["ratio"], 0.95, f"{row['peer']} -l {row['list']}")
        else:
            least = 0.97 if row["op"] == "write" else 0.95
            at_least(f"bandwidth of {row['op']}s, {size}", row["ratio"], least, row["peer"])
