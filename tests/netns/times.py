"""What an operation takes on the hosts of tools/netns, as cluster_program tells."""

import json
import subprocess
from pathlib import Path

NETNS = Path(__file__).resolve().parent.parent.parent / "tools" / "netns"
LIMIT_S = 60
TRIES = 3  # a busy machine does not always keep up


def is_possible():
    return subprocess.run([NETNS, "true"], capture_output=True, text=True, timeout=LIMIT_S, check=False)


def least_us(hosts, program, operation, graph, size, repeat=3):
    done = subprocess.run([NETNS, *hosts, "--each", program, operation, graph, str(size), str(repeat)],
                          capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    row = next(line for line in done.stdout.splitlines() if "min_us" in line)
    return json.loads(row.partition("] ")[2])["min_us"]


def reaches(least, ratio):
    """None once `ratio()` was so much; else what it was each time."""
    ratios = []
    for _ in range(TRIES):
        ratios.append(ratio())
        if ratios[-1] >= least:
            return None
    return ratios
