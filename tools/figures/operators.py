"""Part 16: doctor names causes, raises no false alarm, and predicts what mending brings; tune beside the defaults; a large
prediction."""

import math
import os
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from figures.clusters import documents
from figures.runs import ROOT, ROUNDS, RUN_LIMIT_S, show, at_most, remark

LEAST_NAMED = 18 / 20
CLEAN = 5
MBIT = 200
TOP_RANKS = 16
TOP_S = 20
SICK = "[ $NETNS_HOST = 1 ] && ip link set rail1 down; exec \"$0\" \"$@\""  # a host that has lost a rail
WELL = "exec \"$0\" \"$@\""

# Name, and the arguments of tools/netns; None: four ranks on this machine, bound to two cores.
LABS = (("uneven rates", ("-r", "2", "--rates", "400,100")), ("latency 10 ms", ("--rates", "400", "--delay", "5")),
        ("loss 0.1 %", ("--rates", "400", "--loss", "0.1")), ("four ranks on two cores", None), ("BCube", ("-r", "2", "--rates", "200")))
SUITE = ("allreduce", "neighbor_allreduce", "allgather")
SUITE_SIZES = "4K,64K,512K"
TUNE_S = 120
PROFILE_ROUNDS = 3


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


def in_lab(runs, lab, words, profile=None, limit_s=RUN_LIMIT_S):
    """The first rank's output of `weft WORDS` on four ranks of a lab."""
    settings = {"WEFT_PROFILE": str(profile)} if profile else {}
    if lab is None:
        command = ["taskset", "-c", "0,1", str(runs.weft), "run", "-n", "4", "--", str(runs.weft), *words]
    else:
        command = [str(ROOT / "tools" / "netns"), "-n", "4", *lab, "--each", str(runs.weft), *words]
    print(f"# {shlex.join(command)}", file=sys.stderr, flush=True)
    done = subprocess.run(command, env=dict(os.environ, **settings), capture_output=True, text=True, timeout=limit_s, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{shlex.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    first = "[0]" if lab is None else "[host0"
    return "".join(line.partition("] ")[2] + "\n" for line in done.stdout.splitlines() if line.startswith(first))


def suite_us(runs, lab, profile):
    times = {}
    for operation in SUITE:
        words = ("perf", operation, "--ranks", "4", "--sizes", SUITE_SIZES, "--seconds", "0.5", "--transport", "automatic", "--json", "-")
        for row in documents(in_lab(runs, lab, words, profile)):
            times[operation, row["bytes"]] = row["p50_us"]
    return times


def tuned(runs, lab, profile):
    """How many times as fast as the defaults the suite is with what `weft tune` found: 1 where it writes no profile."""
    profile.unlink(missing_ok=True)
    in_lab(runs, lab, ("tune", "--time", f"{TUNE_S}s", "--sizes", SUITE_SIZES, "-o", str(profile)), limit_s=4 * TUNE_S)
    if not profile.exists():
        return 1.0
    ratios = {}
    for _ in range(PROFILE_ROUNDS):
        usual, ours = suite_us(runs, lab, None), suite_us(runs, lab, profile)
        for key, value in usual.items():
            ratios.setdefault(key, []).append(value / ours[key])
    return math.exp(statistics.mean(math.log(statistics.median(each)) for each in ratios.values()))


def tune_figures(runs, build):
    gains = []
    for name, lab in LABS:
        gains.append(tuned(runs, lab, build / "tuned-profile.toml"))
        show(f"tune, {name}", f"{gains[-1]:.2f}", ">= 0.98", "the defaults", gains[-1] >= 0.98)
    mean = math.exp(statistics.mean(map(math.log, gains)))
    show("tune, geometric mean of five labs", f"{mean:.2f}", ">= 1.15", "the defaults", mean >= 1.15)


def large_prediction(runs, build):
    """Seconds and MB of `weft predict` for 1,024 machines with eight ranks and eight rails each."""
    rates = build / "eight-rails.toml"
    rates.write_text("".join(f'[[nic]]\nname = "mlx5_{i}"\nmbit_per_s = 400_000\n' for i in range(8)), encoding="utf-8")
    command = [str(runs.weft), "predict", "--like", str(ROOT / "examples" / "machines" / "8gpu-8nic.xml"), "--correct", str(rates),
               "--machines", "1024", "--per-machine", "8"]
    seconds, most = [], 0
    for _ in range(ROUNDS):
        begin = time.monotonic()
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            raise RuntimeError(f"{shlex.join(command)}: exit status {child.returncode}")
        seconds.append(time.monotonic() - begin)
        most = max(most, usage.ru_maxrss / 1000)
    return statistics.median(seconds), most


def live_threads_s(folder):
    """Seconds on a core of the threads that answer at the sockets of a folder."""
    total = 0
    for path in Path(folder).iterdir():
        for task in Path("/proc", path.name.rpartition("-")[2], "task").iterdir():
            if (task / "comm").read_text(encoding="utf-8").strip() == "weft-live":
                total += int((task / "schedstat").read_text(encoding="utf-8").split()[0]) / 1e9
    return total


def top_cost(runs):
    """The part of all cores that a look each second takes, of 16 ranks: what `weft top` and the ranks' answering threads run."""
    with tempfile.TemporaryDirectory() as folder:
        live = Path(folder, "live")
        words = [str(runs.weft), "perf", "neighbor_allreduce", "--ranks", str(TOP_RANKS), "--sizes", "64K", "--seconds", "120"]
        job = subprocess.Popen(words, env=dict(os.environ, WEFT_LIVE=str(live)), stdout=subprocess.DEVNULL, start_new_session=True)
        try:
            end = time.monotonic() + RUN_LIMIT_S
            while not live.exists() or sum(not path.name.endswith(".new") for path in live.iterdir()) < TOP_RANKS:
                if time.monotonic() > end or job.poll() is not None:
                    raise RuntimeError(f"{shlex.join(words)}: its ranks do not answer")
                time.sleep(0.1)
            before = live_threads_s(live)
            top = subprocess.Popen([str(runs.weft), "top", "--live", str(live), "--json"], stdout=subprocess.DEVNULL)
            time.sleep(TOP_S)
            took = live_threads_s(live) - before
            top.terminate()
            usage = os.wait4(top.pid, 0)[2]
            top.returncode = 0
            return (took + usage.ru_utime + usage.ru_stime) / TOP_S / os.cpu_count()
        finally:
            os.killpg(job.pid, signal.SIGTERM)
            job.wait()


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
    seconds, megabytes = large_prediction(runs, build)
    at_most("1,024 machines with 8 ranks each, predicted", seconds, 5, "seconds")
    at_most("the memory for that", megabytes, 200, "MB")
    at_most("top of 16 ranks, a look each second, in percent", 100 * top_cost(runs), 0.5, "all cores")
    tune_figures(runs, build)
