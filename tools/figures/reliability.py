"""Part 15: how soon ranks hear of a fault, what a job loses that goes on, the same bits, and what checks cost."""

import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from figures.runs import K, M, ROOT, ROUNDS, RUN_LIMIT_S, at_least, at_most, in_turn, ratio_of, remark, rows_of, show, size_text

DEATHS = ROOT / "bench" / "python" / "deaths.py"
DEADLINE_MS = 2000
UCX = {"WEFT_TRANSPORTS": "ucx", "WEFT_INTERFACES": "lo"}
ENDS = 6  # of ranks in deaths.py: four die, and two of the four come back and leave again
SOAK_S = 60
MBIT = 1000


def said(command, **settings):
    """The JSON objects that the ranks print. Some of them are meant to die, so the exit status says nothing."""
    print(f"# {shlex.join(map(str, command))}", file=sys.stderr, flush=True)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "WEFT_LOG": "off", **settings}
    done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, timeout=RUN_LIMIT_S,
                          check=False)
    found = [json.loads(line[line.index("{"):]) for line in done.stdout.splitlines() if "{" in line]
    if not found:
        raise RuntimeError(f"{shlex.join(map(str, command))}: no result\n{done.stdout}{done.stderr}")
    return found


class Faults:
    """deaths.py as a job on this machine, and on hosts that are namespaces."""

    def __init__(self, runs, python):
        self.runs, self.program = runs, [python, DEATHS]

    def here(self, ranks, *words, options=(), **settings):
        return said([self.runs.weft, "run", "-n", ranks, *options, "--", *self.program, *words], **settings)

    def on_hosts(self, rails, *words, **settings):
        return said([ROOT / "tools" / "netns", "-n", 2, "-r", rails, "--rates", MBIT, "--each", *self.program, *words],
                    **{**settings, "WEFT_TRANSPORTS": "automatic"})


def until_error(find, survivors):
    """The slowest rank's time, the median of rounds."""
    times = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            found = find(str(Path(folder) / "time"))
        if len(found) != survivors:
            raise RuntimeError(f"{len(found)} of {survivors} ranks had an error: {found}")
        times.append(max(each["s"] for each in found))
    return statistics.median(times)


def fault_figures(faults):
    for ranks in (4, 16):
        for way, settings in (("shared memory", {}), ("UCX over TCP", UCX)):
            took = until_error(lambda file: faults.here(ranks, "error", file, options=("--keep-going",), **settings), ranks - 1)
            at_most(f"SIGKILL to the error of all others, {ranks} ranks, {way}", took * 1e3, 100, "ms")
    took = until_error(lambda file: faults.on_hosts(1, "off", file, WEFT_DEADLINE_MS=str(DEADLINE_MS)), 2)
    at_most("a host off its only rail to the errors", took, DEADLINE_MS / 1e3 + 1, f"s, deadline {DEADLINE_MS} ms")
    steps = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            steps += faults.on_hosts(2, "cable", str(Path(folder) / "time"))
    remark(f"a step of allreduce, 256 KiB, on 2 rails of {MBIT} Mbit/s takes {steps[0]['median_ms']:.1f} ms")
    at_most("a cable pulled from one of 2 rails: the longest step", statistics.median(each["longest_ms"] for each in steps), 50, "ms")


def skip_figures(faults):
    hurt = faults.here(16, "skip", options=("--restart", 1), WEFT_ON_DEATH="skip")
    spared = faults.here(16, "skip", "--spared", WEFT_ON_DEATH="skip")
    remark(f"digits, 16 ranks, 4 killed, 2 let in again: {len(hurt)} ranks at the end")
    show("ranks at the end", str(len(hurt)), "14", "ranks", len(hurt) == 14)
    at_most("steps lost by a rank at each end of another", max(each["lost"] for each in hurt) / ENDS, 1, "steps")
    accuracy, other = (statistics.mean(each["accuracy"] for each in side) for side in (hurt, spared))
    show("accuracy less than where nobody dies by", f"{100 * (other - accuracy):.2f}", "<= 0.50", f"points, {100 * other:.1f} %",
         other - accuracy <= 0.005)
    distance, least = (max(each["distance"] for each in side) for side in (hurt, spared))
    at_most("farthest model from the mean", distance / least, 2, f"that where nobody dies, {least:.4f}")


def bits_figures(runs, faults):
    ways = {"shared memory": {}, "2 lanes": {"WEFT_LANES": "2"}, "4 lanes": {"WEFT_LANES": "4"}, "UCX over TCP": UCX,
            "private memory staged": {"WEFT_PRIVATE_MEMORY": "staging"}}
    equal = 0
    all_ways = 0
    for ranks in (2, 3, 8, 16):
        found = {way: {each["crc"] for each in faults.here(ranks, "bits", WEFT_BITS="fixed", **settings)} for way, settings in ways.items()}
        first = next(iter(found.values()))
        all_ways += len(ways)
        equal += sum(len(each) == 1 and each == first for each in found.values())
    show("ways with the bits of the first, 2 to 16 ranks", f"{equal}/{all_ways}", f"{all_ways}/{all_ways}", ", ".join(ways), equal == all_ways)
    for ranks in (2, 4):
        prices = [runs.perf("allreduce", "--ranks", str(ranks), "--sizes", "1M", "--bits", "fixed")[0]["price"] for _ in range(ROUNDS)]
        at_most(f"fixed bits, 1 MiB, {ranks} ranks, time", statistics.median(prices), 1.3, "automatic in the same run")


def digest_figures(runs, build):
    rows = json.loads(subprocess.run([str(build / "bin" / "bench_digest"), "--benchmark_filter=crc/", "--benchmark_format=json",
                                      "--benchmark_min_time=0.1"], capture_output=True, text=True, check=True, timeout=RUN_LIMIT_S).stdout)
    rates = {row["name"]: row["bytes_per_second"] / 1e9 for row in rows["benchmarks"]}
    at_least("CRC-32C, GB/s of a core, slowest size from 4 KiB", min(rate for name, rate in rates.items() if int(name.split("/")[1]) >= 4 * K), 8, "GB/s")

    def p50(value, words):
        command = [str(runs.weft), "perf", "allreduce", "--ranks", "2", *words, "--json", "-"]
        return rows_of(command, WEFT_DIGESTS=value)[0]["p50_us"]

    def rail(value):
        command = [str(ROOT / "tools" / "netns"), "-n", "2", "--rates", str(MBIT), "--each", str(runs.weft), "perf", "allreduce",
                   "--sizes", "4M", "--ranks", "2", "--transport", "automatic", "--json", "-"]
        return rows_of(command, WEFT_DIGESTS=value)[0]["p50_us"]

    sides = in_turn(off=lambda: rail("off"), on=lambda: rail("pieces"))
    at_most(f"digests of pieces, 4 MiB over {MBIT} Mbit/s, time", ratio_of(sides["on"], sides["off"]), 1.01, "without")
    for size in (M, 16 * M):
        sides = in_turn(off=lambda: p50("off", ("--sizes", str(size))), on=lambda: p50("pieces", ("--sizes", str(size))))
        at_most(f"digests of pieces, {size_text(size)} in shared memory, time", ratio_of(sides["on"], sides["off"]), 1.01, "without")


def rail_figures(build):
    command = [str(ROOT / "tools" / "netns"), "-n", "4", "-r", "2", "--rates", f"{MBIT},{MBIT}", "--each", "sh", "-c", 'exec "$0" "$NETNS_CONTROL" times',
               str(build / "bin" / "lost_rail_program")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=True)
    after, planned, usual, ring = (float(word) for word in re.search(r"after=(\S+) planned=(\S+) usual=(\S+) ring=(\S+)", done.stdout).groups())
    at_most("a machine of 4 has lost a rail of 2: all plan anew, s", after, 1, "from the pulled cable")
    at_most("then allreduce of 16 MB, time", planned / usual, 0.8, f"what is chosen for whole rails, in the same run; {planned / ring:.2f} of a ring")


def soak_figures(build):
    for transport in ("shm", "ucx"):
        done = subprocess.run([str(ROOT / "tools" / "soak"), "-t", f"{SOAK_S}s", "--build", str(build), "--transport", transport],
                              capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False)
        remark(" ".join(done.stdout.split())[:300])
        counts = {name: int(re.search(rf"(\d+) {name}|{name} (\d+)", done.stdout).group(0).replace(name, "")) for name in ("kills", "let in")}
        wrong = done.stdout.count("soak: wrong")
        show(f"soak over {transport}, {SOAK_S} s: wrong", str(wrong), "0", f"{counts['kills']} kills, {counts['let in']} let in", wrong == 0 and done.returncode == 0)


def part_15(runs, build):
    faults = Faults(runs, str(build.resolve() / "python" / "bin" / "python"))
    fault_figures(faults)
    skip_figures(faults)
    bits_figures(runs, faults)
    digest_figures(runs, build)
    rail_figures(build)
    soak_figures(build)
