"""Checks a model of this folder with Spin: check.py MODEL [NAME=VALUE…].

Without bounds, the model must hold under each of its bounds, and each broken variant must fail: a model in which
nothing happens would hold, too. With bounds, only the model itself is checked, for longer searches by hand."""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SKIPPED = 77
MOST_MEMORY_MIB = 512
MOST_MEMORY_BY_HAND_MIB = 8192
MOST_SECONDS = 240
MOST_SECONDS_BY_HAND = 3600
DEEPEST = 100_000

# Safety only: assertions, and no end that is not one. Liveness: also the ltl formula, under weak fairness.
SAFETY = ("-DSAFETY", "-DNOCLAIM"), ()
LIVENESS = ("-DNFAIR=3",), ("-a", "-f")

# For each model: the bounds under which it holds, and the broken variants. Each with what is looked for.
MODELS = {
    "slot": (
        [("MESSAGES=3 VISITS=2 FAILURES=1", SAFETY), ("MESSAGES=4 VISITS=1 FAILURES=1", SAFETY),
         ("MESSAGES=3 VISITS=1 FAILURES=2", SAFETY), ("MESSAGES=4 VISITS=2 FAILURES=0", SAFETY)],
        [(f"MESSAGES=3 VISITS=1 FAILURES=1 {variant}", SAFETY)
         for variant in ("BROKEN_ORDER", "BROKEN_CHECK", "BROKEN_SUSPECT", "BROKEN_LATE_ORDER", "BROKEN_UNPIN",
                         "BROKEN_CONTINUE", "BROKEN_ACK", "BROKEN_TAKEN", "BROKEN_READ_BACK", "BROKEN_REPLACE",
                         "BROKEN_PUTS")] + [("MESSAGES=4 VISITS=0 FAILURES=1 BROKEN_BUFFERS", SAFETY)]),
    "lock": (
        [("CLIENTS=2 WANTS=2 CUTS=1 DEADLINES=1 DEATHS=1", SAFETY),
         ("CLIENTS=3 WANTS=1 CUTS=1 DEADLINES=0 DEATHS=1", SAFETY),
         ("CLIENTS=2 WANTS=1 CUTS=2 DEADLINES=1 DEATHS=0 ONE_RANK", LIVENESS),
         ("CLIENTS=2 WANTS=1 CUTS=1 DEADLINES=1 DEATHS=1", LIVENESS)],
        [("WANTS=1 DEATHS=0 ONE_RANK BROKEN_ATTEMPT", SAFETY), ("WANTS=1 DEATHS=0 BROKEN_EPOCH", SAFETY),
         ("WANTS=1 DEATHS=0 BROKEN_DOUBT", SAFETY), ("WANTS=1 DEATHS=0 BROKEN_ALIVE", SAFETY),
         ("WANTS=1 CUTS=0 DEADLINES=0 BROKEN_DEAD", LIVENESS), ("WANTS=1 CUTS=0 DEATHS=0 BROKEN_WITHDRAW", LIVENESS)]),
    "healing": (
        [("RANKS=3 CALLS=2 DEATHS=1 RETURNS=0", SAFETY)],
        [(f"RANKS=3 CALLS=2 DEATHS=1 RETURNS=0 {variant}", SAFETY)
         for variant in ("BROKEN_RESUMED", "BROKEN_CLOSE")]),
    "rejoin": (
        [("RANKS=3 CALLS=1 DEATHS=1 RETURNS=1 GONE=1", SAFETY)],
        [(f"RANKS=3 CALLS=1 DEATHS=1 RETURNS=1 GONE=1 {variant}", SAFETY)
         for variant in ("BROKEN_EVENTS", "BROKEN_LOOK", "BROKEN_INVITE", "BROKEN_EPOCH", "BROKEN_FINISH")] +
        [("RANKS=3 CALLS=1 DEATHS=1 RETURNS=2 GONE=1 BROKEN_INCARNATION", SAFETY),
         ("RANKS=3 CALLS=3 DEATHS=1 RETURNS=1 GONE=1 BROKEN_ASK", SAFETY)]),
}

# Models of which other ones are a part, by bounds.
FILES = {"rejoin": "healing"}
# Of these, every line is reached under the first bounds.
WHOLE = ("slot", "lock")


def run(command, folder, most_seconds):
    try:
        done = subprocess.run(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=most_seconds)
    except subprocess.TimeoutExpired:
        sys.exit(f"{' '.join(command)}: not over after {most_seconds} s")
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}")
    return done.stdout


def search(model, bounds, goal, optimize, by_hand=False):
    """What pan says after a search of all states. Where there are few, compiling takes longer than the search."""
    to_compile, to_run = goal
    defines = [f"-D{bound}" for bound in bounds.split()]
    memory, seconds = (MOST_MEMORY_BY_HAND_MIB, MOST_SECONDS_BY_HAND) if by_hand else (MOST_MEMORY_MIB, MOST_SECONDS)
    with tempfile.TemporaryDirectory(prefix="weft-models-") as folder:
        run(["spin", *defines, "-a", str(HERE / f"{FILES.get(model, model)}.pml")], folder, seconds)
        compiled = ["gcc", "-w", optimize, "-DCOLLAPSE", "-DVECTORSZ=2048", f"-DMEMLIM={memory}", *to_compile,
                    "pan.c", "-o", "pan"]
        run(compiled, folder, seconds)
        return run(["./pan", *to_run, f"-m{DEEPEST}", "-w20"], folder, seconds)


def errors(said):
    """How many errors a search found; 0 only if it saw all states."""
    found = int(re.search(r"errors: (\d+)", said).group(1))
    if found == 0 and re.search(r"not completed|too small|out of memory", said):
        sys.exit(f"the search did not see all states:\n{said}")
    return found


def unreached(said):
    """Lines of the processes that no state reached. Processes that go on for ever need not reach their end."""
    processes = said.split("unreached in claim")[0]
    return [line.strip() for line in processes.splitlines() if ".pml:" in line and '"-end-"' not in line]


def check_holds(model, bounds, goal, all_reached=False, by_hand=False):
    said = search(model, bounds, goal, "-O1", by_hand)
    if errors(said):
        sys.exit(f"{model} does not hold with {bounds}:\n{said}")
    states = re.search(r"(\S+) states, stored", said).group(1)
    print(f"{model} holds with {bounds}: {states} states")
    if all_reached and unreached(said):
        sys.exit("lines that no state reached:\n" + "\n".join(unreached(said)))


def check_fails(model, bounds, goal):
    said = search(model, bounds, goal, "-O0")
    if not errors(said):
        sys.exit(f"{model} holds with {bounds}, although it is broken")
    print(f"{model} fails with {bounds}, as it must: {re.search(r'pan:1: (.*)', said).group(1)}")


def main(model, *bounds):
    for program in ("spin", "gcc"):
        if not shutil.which(program):
            print(f"skipped: {program} is not installed (tools/deps installs it)")
            return SKIPPED
    holds, fails = MODELS[model]
    if bounds:
        goal = LIVENESS if model == "lock" else SAFETY
        check_holds(model, " ".join(bounds), goal, by_hand=True)
        return 0
    for number, (each, goal) in enumerate(holds):
        check_holds(model, each, goal, all_reached=number == 0 and model in WHOLE)
    for each, goal in fails:
        check_fails(model, each, goal)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
