"""What `weft predict` says of a cluster, once its links were measured, beside what its operations take there. The gate is
wider than that of `tools/numbers 4`, and what misses it is measured again: a busy machine does not always keep up.
Usage: prediction_test.py WEFT netns|softroce. Exits with 77 where that cluster is not possible."""

import importlib.machinery
import importlib.util
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LIMIT_S = 60
GATE = 0.25
TRIES = 3
CLUSTERS = {"netns": (100, "4M"), "softroce": (20, "1M")}  # Mbit/s of each link, and bytes of a tensor
SECONDS = 3  # of each operation


def numbers():
    """tools/numbers as a module."""
    loader = importlib.machinery.SourceFileLoader("numbers_of_weft", str(ROOT / "tools" / "numbers"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


class PredictionTest(unittest.TestCase):
    def missed(self, tool, operations, scratch):
        """Those of the operations that did not take as long as predicted."""
        mbit, size = CLUSTERS[sys.argv[2]]
        tool.PREDICTED = operations
        found = tool.predictions(tool.Runs(Path(sys.argv[1])), sys.argv[2], {1: mbit, 2: mbit}, (size,), scratch,
                                 SECONDS * mbit)
        missed = []
        for operation, (name, size, predicted, took) in zip(operations, found, strict=True):
            print(f"{name}, {size} B: predicted {predicted / 1e3:.1f} ms, measured {took / 1e3:.1f} ms", flush=True)
            if abs(predicted - took) / took >= GATE:
                missed.append(operation)
        return missed

    def test_operations_take_as_long_as_predicted(self):
        tool = numbers()
        operations = tool.PREDICTED
        with tempfile.TemporaryDirectory() as scratch:
            for _ in range(TRIES):
                operations = operations and self.missed(tool, operations, Path(scratch))
        self.assertEqual(operations, [], f"beyond {GATE:.0%}, {TRIES} times")


if __name__ == "__main__":
    possible = subprocess.run([ROOT / "tools" / sys.argv[2], "true"], capture_output=True, text=True, timeout=LIMIT_S,
                              check=False)
    if possible.returncode == 77:
        sys.exit(print(possible.stderr, file=sys.stderr) or 77)
    unittest.main(argv=sys.argv[:1])
