"""Part 5: beside a build of the commit before it, and private memory."""

import shlex
import statistics
import subprocess
import sys
import time

from figures.runs import ROOT, RANKS, M, ROUNDS, RUN_LIMIT_S, ratio_of, size_text, show, at_least, at_most, rows_of

KEPT_OPERATIONS = ("neighbor_allreduce", "allreduce")
KEPT_SIZES = {"shm": "4,64,1K,4K,16K,64K,256K,1M,4M,16M", "ucx": "4,1K,16K,64K,1M,4M", "softroce": "4,4K,64K,1M"}
KEPT_ROUNDS = 5
FOREIGN_OPERATIONS = ("neighbor_allreduce", "neighbor_allgather", "allreduce", "broadcast", "reduce", "allgather",
                      "reduce_scatter", "gather", "scatter", "alltoall")
FOREIGN_SIZES = (M, 4 * M, 16 * M, 64 * M)
FOREIGN_WAYS = ("staging", "cma")
MANY_RANKS = 128


def keeps(what, before, now):
    """`before` and `now`: a list of rows for each round. A size may be 3% slower; 4 B may not."""
    for sizes in zip(*before, *now):
        old = [row["p50_us"] for row in sizes[:len(before)]]
        new = [row["p50_us"] for row in sizes[len(before):]]
        least = 1 if sizes[0]["bytes"] == 4 else 0.97
        at_least(f"{what}, {size_text(sizes[0]['bytes'])}", ratio_of(old, new), least, "the baseline's speed")


def kept_figures(runs, baseline, transport, ranks):
    for operation in KEPT_OPERATIONS:
        words = ["perf", operation, "--transport", transport, "--ranks", str(ranks), "--sizes", KEPT_SIZES[transport],
                 "--seconds", "0.1", "--json", "-"]
        print(f"# weft {shlex.join(words)}, in turn with the baseline", file=sys.stderr, flush=True)
        before, now = [], []
        for _ in range(KEPT_ROUNDS):
            before.append(rows_of([str(baseline), *words]))
            now.append(rows_of([str(runs.weft), *words]))
        keeps(f"{operation}, {transport}, {ranks} ranks", before, now)


def kept_rdma_figures(runs, baseline):
    """One guest for each operation; both builds take turns in it."""
    for operation in KEPT_OPERATIONS:
        words = ["perf", operation, "--transport", "automatic", "--ranks", "2", "--sizes", KEPT_SIZES["softroce"],
                 "--seconds", "0.5", "--json", "-"]
        turns = [shlex.join([str(weft), *words]) for _ in range(KEPT_ROUNDS) for weft in (baseline, runs.weft)]
        command = [str(ROOT / "tools" / "softroce"), "-t", str(RUN_LIMIT_S), "-n", "2", "-r", "1", "--each", "sh", "-c",
                   " && ".join(turns)]
        print(f"# tools/softroce: weft {shlex.join(words)}, in turn with the baseline", file=sys.stderr, flush=True)
        rows = rows_of(command, RUN_LIMIT_S + 10)
        sizes = len(KEPT_SIZES["softroce"].split(","))
        rounds = [rows[first:first + sizes] for first in range(0, len(rows), sizes)]
        keeps(f"{operation}, Soft-RoCE, 2 ranks", rounds[0::2], rounds[1::2])


def private_figures(runs, ranks):
    """What the engine chooses next to each way that can be asked for; a process for each, as first calls are first once."""
    bench = runs.weft.parent / "bench_private_memory"
    for operation in FOREIGN_OPERATIONS:
        print(f"# bench_private_memory {operation}, {ranks} ranks", file=sys.stderr, flush=True)
        for size in FOREIGN_SIZES:
            command = [str(runs.weft), "run", "-n", str(ranks), "--", str(bench), operation, str(size)]
            took = {way: rows_of(command, WEFT_PRIVATE_MEMORY=way)[0] for way in ("auto", *FOREIGN_WAYS)}
            best = min(took[way]["p50_us"] for way in FOREIGN_WAYS)
            what = f"{operation}, private, {ranks} ranks, {size_text(size)}"
            at_least(what, best / took["auto"]["p50_us"], 0.85, "the better of staging and process_vm_readv")
            at_most(f"{what}, first call", took["auto"]["first_us"] / took["auto"]["p50_us"], 3, "later calls")
            runs.keep("bench_private_memory", took["auto"])


def many_ranks_figures(runs):
    times = []
    for _ in range(ROUNDS):
        begin = time.monotonic()
        subprocess.run([str(runs.weft), "run", "-n", str(MANY_RANKS), "--", str(runs.weft.parent / "quickstart")], check=True,
                       timeout=RUN_LIMIT_S, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        times.append(time.monotonic() - begin)
    took = statistics.median(times)
    show(f"quickstart, {MANY_RANKS} ranks", f"{took:.1f} s", "<= 4 s", "start to end", took <= 4)


def part_5(runs, _scratch):
    many_ranks_figures(runs)
    for ranks in RANKS:
        private_figures(runs, ranks)
    if runs.baseline is None:
        print("# no --baseline DIR: nothing is held against the commit before this part", flush=True)
        return
    for ranks in RANKS:
        kept_figures(runs, runs.baseline, "shm", ranks)
    kept_figures(runs, runs.baseline, "ucx", 2)
    kept_rdma_figures(runs, runs.baseline)
