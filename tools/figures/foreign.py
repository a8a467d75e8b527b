"""Part 11: memory that Weft did not allocate, in both states of a virtual machine's cores."""

import statistics
import sys

from figures.runs import K, RANKS, at_least, remark, rows_of, size_text

OPERATIONS = ("neighbor_allreduce", "neighbor_allgather", "allreduce", "broadcast", "reduce", "allgather", "reduce_scatter",
              "gather", "scatter", "alltoall")
SIZES = "4,64,64K,256K,1M,4M,16M,64M"
WAYS = ("auto", "staging", "cma")
FAR_NS = 100  # a ping-pong between cores; near ones take 25 to 60, far ones 150 to 250
ROUNDS = 2  # of all operations in one state; more only to see the other state
MOST_ROUNDS = 4


def state_of(row):
    return "far" if row["ping_pong_ns"] >= FAR_NS else "near"


def measure(runs, operation, ranks, seen):
    """Adds (the better way's time / ours, the peer's time / ours) to `seen`, by state and bytes, where the state stayed."""
    command = [str(runs.weft), "perf", operation, "--ranks", str(ranks), "--sizes", SIZES, "--memory", "private", "--seconds",
               "0.3", "--against", "openmpi", "--json", "-"]
    print(f"# weft {' '.join(command[1:-2])}", file=sys.stderr, flush=True)
    for rows in zip(*(rows_of(command, WEFT_PRIVATE_MEMORY=way) for way in WAYS)):
        auto = rows[0]
        runs.keep(f"weft {' '.join(command[1:-2])}", auto)
        if len({state_of(row) for row in rows}) == 1:
            best = min(row["p50_us"] for row in rows[1:])
            seen.setdefault((state_of(auto), auto["bytes"]), []).append((best / auto["p50_us"], auto["speedup"]))


def part_11(runs, _scratch):
    found = {(operation, ranks): {} for operation in OPERATIONS for ranks in RANKS}
    for done in range(MOST_ROUNDS):
        states = {state for seen in found.values() for state, _ in seen}
        if done >= ROUNDS and len(states) == 2:
            break
        for (operation, ranks), seen in found.items():
            measure(runs, operation, ranks, seen)
    for state in ("near", "far"):
        remark(f"cores {state} each other: a ping-pong takes {'less' if state == 'near' else 'at least'} {FAR_NS} ns"
               if any(state == each for seen in found.values() for each, _ in seen)
               else f"cores {state} each other were not seen in {MOST_ROUNDS} rounds")
        for (operation, ranks), seen in found.items():
            for (its, size), ratios in sorted(seen.items()):
                if its != state:
                    continue
                what = f"{operation}, private, {state}, {ranks} ranks, {size_text(size)}"
                ways, speedups = (statistics.median(each) for each in zip(*ratios))
                if size >= 64 * K:
                    at_least(what, ways, 0.9, "the better of staging and process_vm_readv")
                at_least(f"{what}, speed", speedups, 0.97, "Open MPI")
