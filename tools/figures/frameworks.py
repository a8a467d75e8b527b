"""Part 14: steps of training by torch.distributed and weft.horovod beside gloo, and what the package costs; sets of
tensors by name beside one tensor."""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from figures import named
from figures.runs import RANKS, ROOT, RUN_LIMIT_S, at_least, at_most, rows_of, show, size_text

STEPS = ROOT / "bench" / "python" / "steps.py"
IMPORT_ROUNDS = 11
INSTALL_LIMIT_S = 3600


def step_figures(runs, python):
    """Rounds of both backends take turns inside the program."""
    rows = rows_of([python, str(STEPS), "--ranks", *map(str, RANKS)], 2 * RUN_LIMIT_S, OMP_NUM_THREADS="1")
    runs.tables.append(("bench/python/steps.py", [
        {"op": row["way"], "ranks": row["ranks"], "p50_us": row["weft_us"], "peer_p50_us": row["gloo_us"],
         "ratio": row["ratio"], **({"bytes": row["bytes"]} if "bytes" in row else {})} for row in rows]))
    most = {"ddp": ("a step of DDP, 10 MB", 0.8), "fsdp": ("a step of FSDP2, 10 MB", 1)}
    for row in rows:
        ranks, gloo = f"{row['ranks']} ranks", f"gloo, {row['gloo_us'] / 1e3:.1f} ms"
        if row["way"] in most:
            name, bound = most[row["way"]]
            at_most(f"{name}, {ranks}, time", 1 / row["ratio"], bound, gloo)
        elif row["way"] == "gradients":
            at_least(f"ResNet-50's gradients, hvd.allreduce_async_, {ranks}", row["ratio"], 3, f"the hook of DDP on {gloo}")
        else:
            at_least(f"torch send and recv, {size_text(row['bytes'])}", row["ratio"], 1, f"gloo, {row['gloo_us']:.0f} us")


def import_seconds(python, before, module):
    """How long the import takes, in a process that has imported `before`: the median of some processes."""
    program = f"import time{before}; begin = time.perf_counter(); import {module}; print(time.perf_counter() - begin)"

    def took():
        done = subprocess.run([python, "-c", program], check=True, timeout=RUN_LIMIT_S, capture_output=True, text=True)
        return float(done.stdout)

    return statistics.median(took() for _ in range(IMPORT_ROUNDS))


def import_figures(python):
    alone = import_seconds(python, "", "weft")
    show("import weft", f"{alone:.3f} s", "<= 0.15 s", "with NumPy", alone <= 0.15)
    beyond = import_seconds(python, ", torch", "weft.torch")
    show("import weft.torch", f"{beyond:.3f} s", "<= 0.10 s", "beyond import torch", beyond <= 0.1)


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def package_figures(python):
    """`pip install` of an sdist, as pip does it where there is no wheel: everything is compiled."""
    with tempfile.TemporaryDirectory(prefix="weft-install-") as scratch:
        make = "import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])"
        subprocess.run([python, "-c", make, scratch], cwd=ROOT, check=True, timeout=RUN_LIMIT_S, stdout=subprocess.DEVNULL)
        (sdist,) = Path(scratch).glob("weft-*.tar.gz")
        environment = Path(scratch) / "environment"
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True, timeout=RUN_LIMIT_S)
        begin, used = time.monotonic(), processor_seconds()
        subprocess.run([str(environment / "bin" / "pip"), "install", "--quiet", "--no-deps", str(sdist)], check=True,
                       timeout=INSTALL_LIMIT_S, env=dict(os.environ, CCACHE_DISABLE="1"))
        minutes, used = (time.monotonic() - begin) / 60, (processor_seconds() - used) / 60
        show("pip install of an sdist, two cores", f"{used / 2:.1f} min", "<= 5 min",
             f"half of {used:.1f} min of processor time; it took {minutes:.1f}", used / 2 <= 5)


def part_14(runs, build):
    python = build / "python" / "bin" / "python"
    if not python.exists():
        raise RuntimeError(f"{python} is not there: run tools/test --label python first")
    named.set_figures(runs)
    step_figures(runs, str(python))
    import_figures(str(python))
    package_figures(str(python))
