"""Part 6: Python beside C++, torch.distributed beside gloo, and what the package costs."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from figures.runs import K, M, RANKS, ROOT, RUN_LIMIT_S, at_least, at_most, rows_of, show, size_text

BENCH = ROOT / "bench" / "python"
CALL_ROUNDS = 5
IMPORT_ROUNDS = 11
INSTALL_LIMIT_S = 1800


def call_figures(runs, python):
    """Each round: `weft perf` in C++, then the same exchange from Python."""
    cpp = [str(runs.weft), "perf", "neighbor_allreduce", "--ranks", "2", "--sizes", "4K", "--seconds", "1", "--json", "-"]
    rounds = []
    for _ in range(CALL_ROUNDS):
        base = rows_of(cpp)[0]["p50_us"]
        (found,) = rows_of([str(runs.weft), "run", "-n", "2", "--", python, str(BENCH / "calls.py")])
        rounds.append({"p50_us": base, **found})
    relative_to = f"C++, {statistics.median(one['p50_us'] for one in rounds):.1f} us"
    for key, name, most in (("numpy_us", "NumPy", 3), ("numpy_new_us", "NumPy, a new array", 3),
                            ("torch_us", "torch, a new tensor", 12)):
        more = statistics.median(one[key] - one["p50_us"] for one in rounds)
        show(f"neighbor_allreduce of 1,024 float32, {name}", f"+{more:.1f} us", f"<= {most} us", relative_to, more <= most)


def distributed_figures(runs, python):
    """Rounds of both backends take turns inside the program."""
    command = [python, str(BENCH / "distributed.py"), "--ranks", *map(str, RANKS)]
    rows = rows_of(command, 2 * RUN_LIMIT_S)
    runs.tables.append(("bench/python/distributed.py", [
        {"op": "allreduce", "ranks": row["ranks"], "bytes": row["bytes"], "p50_us": row["weft_us"],
         "peer_p50_us": row["gloo_us"], "speedup": row["ratio"]} for row in rows]))
    for row in rows:
        least = 5 if row["bytes"] == 4 * K else 2 if row["bytes"] >= M else 1
        at_least(f"torch allreduce, {row['ranks']} ranks, {size_text(row['bytes'])}", row["ratio"], least, "gloo")


def training_figures(python):
    (row,) = rows_of([python, str(BENCH / "training.py")])
    at_least("DDP on the digits CNN, 2 ranks", row["ddp_ratio"], 1, f"gloo, {row['ddp_gloo_us']:.0f} us a step")
    at_most("adapt-with-combine, 2 ranks", row["awc_ratio"], 1.1,
            f"max(compute {row['compute_us']:.0f}, exchange {row['exchange_us']:.0f} us)")


def import_figures(python):
    """Each in a process of its own that has imported NumPy before."""
    program = "import time, numpy; begin = time.perf_counter(); import weft; print(time.perf_counter() - begin)"

    def took():
        done = subprocess.run([python, "-c", program], check=True, timeout=RUN_LIMIT_S, capture_output=True, text=True)
        return float(done.stdout)

    more = statistics.median(took() for _ in range(IMPORT_ROUNDS)) * 1e3
    show("import weft", f"{more:.0f} ms", "<= 60 ms", "beyond import numpy", more <= 60)


def package_figures(python):
    """`pip install .` as a newcomer does it: from a copy of what Git has, in a fresh environment."""
    with tempfile.TemporaryDirectory(prefix="weft-install-") as scratch:
        clone, environment = Path(scratch) / "weft", Path(scratch) / "environment"
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}", str(clone)], check=True,
                       timeout=RUN_LIMIT_S)
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True, timeout=RUN_LIMIT_S)
        begin = time.monotonic()
        subprocess.run([str(environment / "bin" / "pip"), "wheel", "--quiet", "--no-deps", "--wheel-dir", scratch, str(clone)],
                       check=True, timeout=INSTALL_LIMIT_S, env=dict(os.environ, CCACHE_DISABLE="1"))
        (wheel,) = Path(scratch).glob("weft-*.whl")
        subprocess.run([str(environment / "bin" / "pip"), "install", "--quiet", str(wheel)], check=True,
                       timeout=INSTALL_LIMIT_S)
        minutes = (time.monotonic() - begin) / 60
        subprocess.run([str(environment / "bin" / "python"), "-c", "import weft"], check=True, timeout=RUN_LIMIT_S)
        megabytes = wheel.stat().st_size / 1e6
        show("wheel", f"{megabytes:.1f} MB", "<= 15 MB", "the file", megabytes <= 15)
        show("pip install . from a clean clone", f"{minutes:.1f} min", "<= 6 min", f"{os.cpu_count()} cores", minutes <= 6)


def part_6(runs, build):
    python = build / "python" / "bin" / "python"
    if not python.exists():
        raise RuntimeError(f"{python} is not there: run tools/test --label python first")
    python = str(python)
    call_figures(runs, python)
    distributed_figures(runs, python)
    training_figures(python)
    import_figures(python)
    package_figures(python)
