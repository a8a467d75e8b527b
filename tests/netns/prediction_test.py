"""What `weft predict` says of a cluster, once its links were measured, beside what its operations take there. The gate is
wider than that of `tools/numbers 4`: a busy machine does not always keep up.
Usage: prediction_test.py WEFT netns|softroce. Exits with 77 where that cluster is not possible."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numbers_tool

ROOT = Path(__file__).resolve().parent.parent.parent
LIMIT_S = 60
GATE = 0.25
MBIT = 100  # of each link between namespaces; the guest is asked what it carries
SIZES = {"netns": "4M", "softroce": "512K"}
SECONDS = 8  # of each operation: its channels take up to 250 ms more at first


class PredictionTest(unittest.TestCase):
    def test_operations_take_as_long_as_predicted(self):
        tool, cluster = numbers_tool.load(), sys.argv[2]
        runs = tool.Runs(Path(sys.argv[1]))
        mbit = tool.guest_rates(runs, SECONDS / 2)[2] if cluster == "softroce" else MBIT
        rates = {1: mbit, 2: mbit}  # one for all, so that it is measured once
        with tempfile.TemporaryDirectory() as scratch:
            for name, size, predicted, took in tool.predictions(runs, cluster, rates, (SIZES[cluster],), Path(scratch),
                                                                SECONDS * rates[1]):
                print(f"{name}, {size} B: predicted {predicted / 1e3:.1f} ms, measured {took / 1e3:.1f} ms", flush=True)
                self.assertLess(abs(predicted - took) / took, GATE, name)


if __name__ == "__main__":
    possible = subprocess.run([ROOT / "tools" / sys.argv[2], "true"], capture_output=True, text=True, timeout=LIMIT_S,
                              check=False)
    if possible.returncode == 77:
        sys.exit(print(possible.stderr, file=sys.stderr) or 77)
    unittest.main(argv=sys.argv[:1])
