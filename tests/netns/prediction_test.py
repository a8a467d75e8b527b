"""What `weft predict` says of a cluster, once its links were measured, beside what its operations take there.
Usage: prediction_test.py WEFT. Exits with 77 where namespaces are not possible."""

import sys
import tempfile
import unittest
from pathlib import Path

import numbers_tool
import predicted
import times

MBIT = 100  # of each link
SIZE = "4M"
SECONDS = 8  # of each operation: its channels take up to 250 ms more at first


class PredictionTest(unittest.TestCase):
    def test_operations_take_as_long_as_predicted(self):
        rates = {1: MBIT, 2: MBIT}  # one for all, so that it is measured once
        with tempfile.TemporaryDirectory() as scratch:
            runs = numbers_tool.runs.Runs(Path(sys.argv[1]))
            predicted.check(self, numbers_tool.planning.predictions(runs, "netns", rates, (SIZE,), Path(scratch),
                                                                    SECONDS * MBIT))


if __name__ == "__main__":
    possible = times.is_possible()
    if possible.returncode == 77:
        sys.exit(print(possible.stderr, file=sys.stderr) or 77)
    unittest.main(argv=sys.argv[:1])
