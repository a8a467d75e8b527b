"""Part 16: doctor names causes, raises no false alarm, and predicts what mending brings."""

import re
import shlex
import statistics
import subprocess
import sys
import time

from figures.clusters import documents
from figures.runs import ROOT, ROUNDS, RUN_LIMIT_S, show, at_most, remark

LEAST_NAMED = 18 / 20
CLEAN = 5
MBIT = 200
SICK = "[ $NETNS_HOST = 1 ] && ip link set rail1 down; exec \"$0\" \"$@\""  # a host that has lost a rail
WELL = "exec \"$0\" \"$@\""


def tested(build, tests):
    """What test_diagnosis prints."""
    command = [str(build / "bin" / "test_diagnosis"), f"--gtest_filter={tests}"]
    print(f"# {shlex.join(command)}", file=sys.stderr, flush=True)
    return subprocess.run(command, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False).stdout


def on_two_hosts(runs, state, *words, statuses=(0,)):
    """The JSON objects that `weft WORDS` prints on the first of two hosts with two rails."""
    command = [str(ROOT / "tools" / "netns"), "-n", "2", "-r", "2", "--rates", str(MBIT), "--each", "sh", "-c", state,
               str(runs.weft), *words, "--json", "-"]
    print(f"# {shlex.join(command)}", file=sys.stderr, flush=True)
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False)
    if done.returncode not in statuses:
        raise RuntimeError(f"{shlex.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return documents("".join(line.partition("] ")[2] for line in done.stdout.splitlines() if line.startswith("[host0")))


def lost_rail(runs):
    """The gain that doctor predicts, and that of the measured times with and without the rail."""
    (report,) = on_two_hosts(runs, SICK, "doctor", statuses=(0, 1, 2))
    costs = [finding["cost"]["times"] for finding in report["findings"] if finding["check"] == "rails" and finding["cost"]]
    words = ("perf", "allreduce", "--sizes", "16M", "--seconds", "3", "--transport", "automatic", "--ranks", "2")
    gains = []
    for _ in range(ROUNDS):
        sick, well = (on_two_hosts(runs, state, *words)[0]["p50_us"] for state in (SICK, WELL))
        gains.append(sick / well)
    return costs[0] if costs else 0.0, statistics.median(gains)


def part_16(runs, build):
    named, causes = map(int, re.search(r"causes named: (\d+) of (\d+)", tested(build, "*Causes*")).groups())
    show("causes that doctor names", f"{named}/{causes}", f">= {LEAST_NAMED:.0%}", "seeded causes", named >= LEAST_NAMED * causes)
    clean = len(re.findall(r"\[       OK \] Clean\.", tested(build, "Clean.*")))
    show("clean set-ups without a false alarm", f"{clean}/{CLEAN}", f"{CLEAN}/{CLEAN}", "set-ups", clean == CLEAN)
    times = []
    for _ in range(ROUNDS):
        begin = time.monotonic()
        subprocess.run([str(runs.weft), "doctor"], stdout=subprocess.DEVNULL, check=False, timeout=RUN_LIMIT_S)
        times.append(time.monotonic() - begin)
    at_most("doctor of one host", statistics.median(times), 10, "seconds")
    predicted, measured = lost_rail(runs)
    remark(f"a rail of one host is down: doctor predicts {predicted:.2f} times, measured {measured:.2f}")
    at_most("predicted gain of mending a rail, off by", abs(predicted / measured - 1), 0.2, "the measured gain")
