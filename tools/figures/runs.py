"""What all parts use: runs of commands, and how a figure is shown."""

import json
import os
import shlex
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SIZES = "4,64,1K,4K,16K,64K,256K,1M,4M,16M,64M"
RANKS = (2, 4)
K, M = 1 << 10, 1 << 20
ROUNDS = 3  # of runs that alternate
RUN_LIMIT_S = 300  # of one `weft perf`; a whole part stays under 15 minutes, but for the guest's share of part 4


class Runs:
    """`weft perf` runs, each kept with its rows for the tables."""

    def __init__(self, weft, baseline=None):
        self.weft = weft
        self.baseline = baseline
        self.tables = []

    def perf(self, *words):
        command = [str(self.weft), "perf", *words, "--json", "-"]
        print(f"# weft {' '.join(command[1:-2])}", file=sys.stderr, flush=True)
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr}")
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        self.tables.append(("weft " + " ".join(command[1:-2]), rows))
        return rows

    def keep(self, command, row):
        """A row for the table of that command, which may have run before."""
        for known, rows in self.tables:
            if known == command:
                rows.append(row)
                return
        self.tables.append((command, [row]))


def in_turn(**sides):
    """What the sides measure, one after the other again and again: the lists of their rounds, by name."""
    found = {name: [] for name in sides}
    for _ in range(ROUNDS):
        for name, side in sides.items():
            found[name].append(side())
    return found


def ratio_of(over, under):
    """The median of the rounds' ratios."""
    return statistics.median(a / b for a, b in zip(over, under))


def size_text(size):
    for unit, one in (("M", M), ("K", K)):
        if size >= one:
            return f"{size // one} {unit}iB"
    return f"{size} B"


FIGURES = []  # as shown, for the CSV file
REMARK = [""]  # the last one: it stands beside the figures after it


def remark(text):
    REMARK[0] = text
    print(f"# {text}", flush=True)


def show(name, measured, target, relative_to, is_met):
    FIGURES.append((name, measured, target, relative_to, "met" if is_met else "short", REMARK[0]))
    print(f"{name:<52} {measured:>9} {target:>9}  {relative_to:<44} {'met' if is_met else 'short'}", flush=True)


def missing(name, target, why):
    """A figure of what is not in this build."""
    FIGURES.append((name, "-", target, why, "missing", REMARK[0]))
    print(f"{name:<52} {'-':>9} {target:>9}  {why:<44} missing", flush=True)


def at_least(name, ratio, least, relative_to):
    show(name, f"{ratio:.2f}", f">= {least:.2f}", relative_to, ratio >= least)


def more_than(name, ratio, bound, relative_to):
    show(name, f"{ratio:.2f}", f"> {bound:.2f}", relative_to, ratio > bound)


def at_most(name, ratio, most, relative_to):
    show(name, f"{ratio:.2f}", f"<= {most:.2f}", relative_to, ratio <= most)


def say_distance(what, rows):
    """The cores' distance during a run: near and far ones differ by several times at small sizes."""
    distances = sorted(row["ping_pong_ns"] for row in rows)
    remark(f"{what}: ping-pong between the cores {distances[0]:.0f} to {distances[-1]:.0f} ns")


def rows_of(command, limit_s=RUN_LIMIT_S, cwd=None, **settings):
    """The JSON objects that a command prints, one a line; of a cluster's ranks, those of the first."""
    done = subprocess.run(command, env=dict(os.environ, **settings), cwd=cwd, capture_output=True, text=True,
                          timeout=limit_s, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{shlex.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return [json.loads(line[line.index("{"):]) for line in done.stdout.splitlines() if "{" in line]
