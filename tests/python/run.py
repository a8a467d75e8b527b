"""Builds the wheel with the library of a build folder, installs it into a virtual environment of that folder, and runs the
tests of tests/python from there, so that they see the wheel and not the tree.

usage: run.py BUILD [PYTEST ARGUMENT…]

Exits with 77, which ctest calls skipped, if the package index cannot be reached and the environment is not there yet. Tests
that need PyTorch skip and say so where it cannot be installed."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ["scikit-build-core", "nanobind", "numpy", "networkx", "pytest", "mypy", "auditwheel"]
TORCH = "torch==2.13.0"
SKIPPED = 77


def run(*command, **more):
    print("+", *command, flush=True)
    return subprocess.run([str(part) for part in command], check=False, **more).returncode


def environment(build):
    """The environment's python, with what the tests need; None where the index is out of reach."""
    python = build / "python" / "bin" / "python"
    if not python.exists() and run(sys.executable, "-m", "venv", build / "python") != 0:
        return None
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "2"]
    if run(*install, *TOOLS) != 0:
        return None
    if run(*install, TORCH) != 0:
        print(f"{TORCH} cannot be installed: its tests skip")
    return python


def main():
    build = Path(sys.argv[1]).resolve()
    python = environment(build)
    if python is None:
        print("the package index cannot be reached: nothing of the Python package was tested")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="weft-wheel-") as scratch:
        if run(python, "-m", "pip", "wheel", ROOT, "--no-deps", "--no-build-isolation", "--wheel-dir", scratch,
               "--config-settings", f"cmake.define.WEFT_PREBUILT={build}",
               "--config-settings", f"build-dir={build}/wheel") != 0:
            return 1
        (wheel,) = Path(scratch).glob("weft-*.whl")
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
        if run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", wheel) != 0:
            return 1
        # Programs that the tests start by name are those of the environment.
        found = dict(os.environ, PATH=f"{python.parent}{os.pathsep}{os.environ['PATH']}")
        found.pop("PYTHONPATH", None)
        return run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", ROOT / "tests" / "python", *sys.argv[2:],
                   cwd=scratch, env=found)


if __name__ == "__main__":
    sys.exit(main())
