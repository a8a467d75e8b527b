"""What depends on how fast the guest of tools/softroce is: how long a failure holds a job up, how much goes over which rail,
and what `weft predict` says of it all.

usage: pace_test.py CLUSTER_PROGRAM WEFT [UNITTEST WORDS…]; needs 4 hosts on 2 rails."""

import json
import sys
import tempfile
import time
import unittest
from pathlib import Path

import cluster_test
from cluster_test import RAILS, Job, carried, shape, shaped, tell, wait_until

sys.path.append(str(Path(__file__).resolve().parent.parent / "netns"))
import numbers_tool  # pylint: disable=wrong-import-position
import predicted  # pylint: disable=wrong-import-position

MBIT = 100
RETRY_S = 4.096e-6 * 2 ** 18  # until a packet without an answer is sent again: WEFT_IB_TIMEOUT
PREDICTED = "512K"
LIMIT_S = 250  # of one command of a prediction
SECONDS = 8  # of each operation: its channels take up to 250 ms more at first
WEFT = ""


class ClusterTest(cluster_test.ClusterCase):
    def test_a_cable_is_pulled_in_the_middle(self):
        before = carried(1, 1)
        job = Job("neighbor_allreduce", "ring", 2_000_000, 8)
        wait_until(lambda: carried(1, 1) - before > 8_000_000)
        tell("ip", "link", "set", "port-h1r1", "down")
        try:
            said = self.assert_right(job)
        finally:
            tell("ip", "link", "set", "port-h1r1", "up")
        self.assertIn("rx_h1r1", said)
        self.assertIn("given up, its pieces go over the other rails", said)
        # The round in which it was pulled lasts as long as one with a rail less, and until that is noticed.
        row = json.loads(job.out)
        undisturbed, slowest = row["min_us"] / 1e6, row["max_us"] / 1e6
        print(f"a cable was pulled: {slowest:.2f} s, undisturbed {undisturbed:.2f} s")
        self.assertLess(slowest, 2 * undisturbed + 2 * RETRY_S)


class ShapedTest(cluster_test.ClusterCase):
    def setUp(self):
        rates = shaped(MBIT, MBIT)
        rates.__enter__()
        self.addCleanup(rates.__exit__, None, None, None)

    def test_every_operation_over_both_rails(self):
        """Without a rate it is the processor alone that says how much goes over which. Each operation runs twice, as the
        processor has a say all the same: the rail that had less took 1.4 to 6 of 12 MB each time."""
        operations = ("neighbor_allreduce", "neighbor_allgather", "allreduce:ring", "allreduce:bcube",
                      "allreduce:halving_doubling", "broadcast")
        before = [carried(0, rail) for rail in range(RAILS)]
        job = Job("+".join(operations), "exponential", 1_000_000, 2, 0)
        self.assertEqual(self.assert_right(job), "")
        self.assertEqual(len(job.out.splitlines()), len(operations))
        for rail in range(RAILS):
            self.assertGreater(carried(0, rail) - before[rail], 2_000_000, f"rail {rail}")

    def test_a_rail_that_grows_slow_is_left_until_it_is_fast_again(self):
        def shape_one(mbit):
            for end in ("h1r1", "port-h1r1"):
                shape(end, mbit)

        before = carried(1, 1)
        job = Job("neighbor_allreduce", "ring", 4_000_000, 50, hosts=2)
        wait_until(lambda: carried(1, 1) - before > 20_000_000)
        shape_one(2)
        try:
            slowed, other = time.monotonic(), carried(1, 0)
            wait_until(lambda: carried(1, 0) - other > 30_000_000)
            took = time.monotonic() - slowed
        finally:
            shape_one(MBIT)
        fast = carried(1, 1)
        wait_until(lambda: carried(1, 1) - fast > 10_000_000)
        said = self.assert_right(job)
        print(f"a rail grew slow: 30 MB over the other within {took:.2f} s")
        self.assertRegex(said, "path to rank . over ib:rx_h[01]r1/1 given up, its pieces go over the other rails")
        self.assertIn("over ib:rx_h1r1/1 is back", said)
        self.assertLess(took, 10)


def rows_here(runs, _cluster, hosts, rates, *words, ranks=1):
    """Stands in for `cluster_rows` of tools/numbers, which boots a guest for each command."""
    with shaped(*rates):
        job = Job(*words, "--json", "-", program=str(runs.weft), hosts=hosts, rails=len(rates), each=ranks)
        statuses, texts = job.end(LIMIT_S)
    if any(statuses):
        raise RuntimeError(f"{words}: {''.join(texts)}")
    return numbers_tool.clusters.documents(job.out)


class PredictionTest(cluster_test.TimedCase):
    def test_operations_take_as_long_as_predicted(self):
        planning = numbers_tool.planning
        planning.cluster_rows = rows_here
        runs = numbers_tool.runs.Runs(Path(WEFT))
        mbit = planning.guest_rates(runs, SECONDS / 2)[2]
        with tempfile.TemporaryDirectory() as scratch:
            predicted.check(self, planning.predictions(runs, "softroce", {1: mbit, 2: mbit}, (PREDICTED,), Path(scratch),
                                                       SECONDS * mbit))


if __name__ == "__main__":
    cluster_test.PROGRAM, WEFT = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main()
