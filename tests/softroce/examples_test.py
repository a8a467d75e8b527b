"""Examples whose ranks are on two hosts, over RDMA in the guest of tools/softroce. They judge their own results.

usage: examples_test.py FOLDER [UNITTEST WORDS…]: the programs are in FOLDER; needs 2 hosts on 2 rails."""

import random
import sys
import tempfile
import unittest
from pathlib import Path

import cluster_test

FEATURES, SAMPLES = 10, 80
FOLDER = Path()


def samples():
    """A table whose features are independent: few iterations find the model."""
    numbers = random.Random(1)
    rows = [[numbers.gauss(0, 1) for _ in range(FEATURES)] for _ in range(SAMPLES)]
    lines = [",".join(f"f{each}" for each in range(FEATURES)) + ",target"]
    for row in rows:
        lines.append(",".join(f"{each:.6f}" for each in [*row, sum(row) + numbers.gauss(0, 1)]))
    return "\n".join(lines) + "\n"


class ExamplesTest(cluster_test.ClusterCase):
    def assert_right_over_rdma(self, name, *words, each=2):
        before = cluster_test.carried(0, 0)
        self.assert_right(cluster_test.Job(*words, hosts=2, each=each, program=FOLDER / name))
        self.assertGreater(cluster_test.carried(0, 0) - before, 50_000, "the hosts exchanged it elsewhere")

    def assert_fits(self, name, graph, iterations):
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder, "samples.csv")
            table.write_text(samples(), "ascii")
            self.assert_right_over_rdma(name, table, graph, iterations)

    def test_gradient_descent(self):
        self.assert_fits("dgd", "exponential", 200)

    def test_school_of_fish(self):
        self.assert_right_over_rdma("fish", each=3)

    def test_consensus_by_asynchronous_push_sum(self):
        self.assert_right_over_rdma("consensus")

    def test_exact_diffusion(self):
        self.assert_fits("exact_diffusion", "ring", 300)

    def test_push_sum_gradient_tracking(self):
        self.assert_fits("gradient_tracking", "grid", 300)


if __name__ == "__main__":
    FOLDER = Path(sys.argv.pop(1))
    unittest.main()
