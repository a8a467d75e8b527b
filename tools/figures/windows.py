"""Part 8: windows, beside memcpy, MPI's windows and perftest; what they cost, and all uses of them at once."""

import shlex
import statistics
import subprocess
import sys

from figures.clusters import GUEST_RUN_LIMIT_S, cluster_median_s
from figures.runs import (ROOT, ROUNDS, RUN_LIMIT_S, K, M, at_least, at_most, in_turn, more_than, ratio_of, remark,
                          rows_of, say_distance, show, size_text)

OPERATIONS = ("win_put", "win_get", "win_accumulate")
LARGE = "1M,4M,16M,64M"
PEER_SIZES = "4K,16K,64K,256K,1M,4M,16M,64M"
PEERS = {"openmpi": "MPI_Win_allocate", "openmpi-create": "MPI_Win_create"}
RDMA_SIZES = "1M,4M"
RDMA_SECONDS = "2"  # of each size and side, in an emulated machine
RAIL_MBIT = 40
OWNER_SECONDS, OWNER_BYTES = 5, 64 * K
USUAL = 1.25  # a median up to so much above another one is the same time: two medians of one thing differ by a tenth
HAMMER_SECONDS = 60
SLOW_SECONDS = 5


def median_of(rows, key):
    return statistics.median(row[key] for row in rows)


def memory_figures(runs):
    for operation in OPERATIONS:
        rows = runs.perf(operation, "--sizes", LARGE)
        say_distance(operation, rows)
        for row in rows:
            name = f"{operation}, {size_text(row['bytes'])}"
            if operation == "win_put":
                at_least(name, row["share"], 0.8, "one memcpy into the peer's memory")
            else:
                remark(f"{name}: {row['share']:.2f} of one memcpy")


def visible_figures(runs):
    rows = [runs.perf("win_put", "--sizes", "4")[0] for _ in range(ROUNDS)]
    at_most("win_put, 4 B, until the peer sees it", median_of(rows, "visible_ratio"), 3,
            f"the way of a cache line, {median_of(rows, 'line_us') * 1000:.0f} ns")


def mpi_figures(runs):
    """Puts have targets; what gets and accumulates take beside MPI's is told."""
    for peer, made_by in PEERS.items():
        for operation in OPERATIONS:
            for row in runs.perf(operation, "--sizes", PEER_SIZES, "--against", peer):
                name, relative_to = f"{operation}, {size_text(row['bytes'])}", f"MPI_Put and flush, {made_by}"
                if operation != "win_put":
                    remark(f"{name}: {row['speedup']:.2f} times as fast as MPI, {made_by}")
                elif peer == "openmpi":
                    at_least(name, row["speedup"], 0.9, relative_to)
                else:
                    more_than(name, row["speedup"], 1, relative_to)


def guest_rows(runs, hosts, script):
    """What a script prints as JSON on the first host of a guest of tools/softroce, where all hosts run it as ranks."""
    command = [str(ROOT / "tools" / "softroce"), "-t", str(GUEST_RUN_LIMIT_S), "-n", str(hosts), "-r", "1", "--each",
               "sh", "-c", script]
    print(f"# {shlex.join(command)}", file=sys.stderr, flush=True)
    rows = rows_of(command, GUEST_RUN_LIMIT_S + 10)
    runs.tables.append((f"tools/softroce -n {hosts} -r 1 --each: {script.replace(str(runs.weft), 'weft')}", rows))
    return rows


def perf_words(runs, *words):
    return shlex.join([str(runs.weft), "perf", *words, "--seconds", RDMA_SECONDS, "--json", "-"])


def beside_perftest(runs, ours, wire):
    """An operation of a window and `weft perf wire --against perftest`, in turn in one guest: the rows of both. The
    second host waits for the first one at the next operation of the window."""
    peer = perf_words(runs, "wire", *wire, "--device", "rx_h0r0", "--peer-device", "rx_h1r0", "--rounds", "3",
                      "--against", "perftest")
    one_round = (perf_words(runs, *ours, "--transport", "automatic"),
                 f'if [ "$SOFTROCE_HOST" = 0 ]; then {peer}; fi')
    rows = guest_rows(runs, 2, " && ".join(one_round * ROUNDS))
    return [row for row in rows if "peer" not in row], [row for row in rows if "peer" in row]


def bandwidth_figures(runs, operation, wire):
    own, peers = beside_perftest(runs, (operation, "--sizes", RDMA_SIZES), ("--op", wire, "--sizes", RDMA_SIZES))
    for size in sorted({row["bytes"] for row in own}):
        ours = [row["bytes"] / row["p50_us"] for row in own if row["bytes"] == size]
        theirs = [row["peer_MiBps"] * M / 1e6 for row in peers if row["bytes"] == size]
        at_least(f"{operation}, {size_text(size)}, Soft-RoCE", ratio_of(ours, theirs), 0.95, peers[0]["peer"])


def mutex_figures(runs):
    own, peers = beside_perftest(runs, ("mutex",), ("--op", "atomic", "--depth", "1"))
    trips = ratio_of([row["p50_us"] for row in own], [row["peer_p50_us"] for row in peers])
    at_most("a mutex locked and unlocked, uncontended, Soft-RoCE", trips, 2.5, "round trips of ib_atomic_lat")


def rail_figures(runs):
    """All that the hosts send together is a third of what the guest carries."""

    def on(*rates):
        return lambda: cluster_median_s(runs, "softroce", 2, rates, "win_put", "--sizes", "16M", "--seconds", "14")

    took = in_turn(one=on(RAIL_MBIT), two=on(RAIL_MBIT, RAIL_MBIT))
    at_least(f"win_put, 16 MiB, two rails of {RAIL_MBIT} Mbit/s, RDMA", ratio_of(took["one"], took["two"]), 1.8,
             "one rail")


def page_figures(runs):
    over_tcp = [runs.perf("win_pages", "--transport", "ucx")[0] for _ in range(ROUNDS)]
    script = " && ".join([perf_words(runs, "win_pages", "--transport", "automatic")] * ROUNDS)
    for network, rows in (("TCP", over_tcp), ("Soft-RoCE", guest_rows(runs, 2, script))):
        at_least(f"{rows[0]['pages']} pages of 1 KiB, one submission, {network}", median_of(rows, "pages_speedup"), 5,
                 "as many writes of one page")


def owner_rows(runs, network):
    bench = [str(runs.weft.parent / "bench_window_owner"), str(OWNER_SECONDS), str(OWNER_BYTES)]
    if network == "Soft-RoCE":
        return guest_rows(runs, 2, shlex.join(bench))
    rows = rows_of([str(runs.weft), "run", "-n", "2", "--no-tag", "--", *bench], WEFT_TRANSPORTS="shm")
    runs.tables.append(("weft run -n 2 -- bench_window_owner", rows))
    return rows


def owner_figures(runs):
    """The owner of the memory sleeps or is stopped meanwhile."""
    for network in ("shm", "Soft-RoCE"):
        found = {(row["op"], row["target"]): row for row in owner_rows(runs, network)}
        for (operation, target), row in found.items():
            if target == "waits":
                continue
            usual = found[operation, "waits"]
            remark(f"{row['calls']} calls, the longest {row['max_us']:.0f} us; {usual['max_us']:.0f} us while it waits")
            at_most(f"{operation}, 64 KiB, owner {target}, {network}", row["p50_us"] / usual["p50_us"], USUAL,
                    f"while it waits, {usual['p50_us']:.1f} us")


def cost_figures(runs):
    bench = str(runs.weft.parent / "bench_windows")
    (row,) = rows_of([str(runs.weft), "run", "-n", "4", "--no-tag", "--", bench])
    runs.tables.append(("weft run -n 4 -- bench_windows", [row]))
    show(f"{row['windows']} windows created, 4 ranks, shm", f"{row['create_ms']:.1f} ms", "<= 10 ms", "all of them",
         row["create_ms"] <= 10)
    (in_guest,) = guest_rows(runs, 4, bench)
    remark(f"Soft-RoCE, 4 hosts: {in_guest['create_ms']:.0f} ms, and {in_guest['free_ms']:.0f} ms to free them")
    for network, found in (("shm", row), ("Soft-RoCE", in_guest)):
        remark(f"{found['pinned_kib_once']:.0f} KiB pinned after the first round of creating and freeing, {network}")
        for key, what in (("descriptors", "descriptors"), ("pinned_kib", "KiB pinned")):
            before, after = found[f"{key}_before"], found[key]
            show(f"{what} after windows were freed, {network}", f"{after:.0f}", f"{before:.0f}",
                 "before they were created", after == before)


def hammer_figures(runs):
    command = [str(runs.weft.parent / "window_hammer"), str(HAMMER_SECONDS)]
    print(f"# {shlex.join(command)}", file=sys.stderr, flush=True)
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False)
    said = done.stdout.strip().splitlines() or ["it said nothing"]
    remark(f"window_hammer: {said[-1]}")
    show(f"16 ranks on 8 windows for {HAMMER_SECONDS} s, exit status", str(done.returncode), "0",
         "every value read and every sum is right", done.returncode == 0)


def slow_rank_rows(runs, ranks, seconds):
    bench = str(runs.weft.parent / "bench_slow_rank")
    rows = rows_of([str(runs.weft), "run", "-n", str(ranks), "--no-tag", "--", bench, str(seconds)])
    runs.tables.append((f"weft run -n {ranks} -- bench_slow_rank {seconds}", rows))
    return rows


def algorithm_figures(runs):
    """The exact mean over windows, and the steps of others beside a rank that is five times as slow."""
    for ranks in (2, 4, 8, 16, 32, 64):
        (exact,) = [row for row in slow_rank_rows(runs, ranks, 0.01) if row["op"] == "exact_mean"]
        show(f"one-peer exponential push-sum, {ranks} ranks, {exact['steps']} steps, error", f"{exact['error']:.1e}",
             "<= 1e-12", "the mean, float64", exact["error"] <= 1e-12)
    rows = [row for row in slow_rank_rows(runs, 4, SLOW_SECONDS) if row["op"] == "slow_rank"]
    for row in rows:
        name = f"{row['method']}, one of 4 ranks 5 times as slow, steps of the others"
        if row["method"] == "allreduce":
            remark(f"{name}: {row['kept']:.2f} of {row['steps_per_s']:.0f} per s")
        else:
            at_least(name, row["kept"], 0.9, f"with equal ranks, {row['steps_per_s']:.0f} per s")


def part_8(runs, _scratch):
    memory_figures(runs)
    visible_figures(runs)
    mpi_figures(runs)
    bandwidth_figures(runs, "win_put", "write")
    bandwidth_figures(runs, "win_get", "read")
    mutex_figures(runs)
    rail_figures(runs)
    page_figures(runs)
    owner_figures(runs)
    cost_figures(runs)
    hammer_figures(runs)
    algorithm_figures(runs)
