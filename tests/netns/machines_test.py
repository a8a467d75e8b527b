"""What it is worth that machines and not ranks exchange: two hosts of two ranks with two rails between them, the
network as the bottleneck. Ranks that each have their neighbor on the other host send two tensors in each direction,
the hosts' means are one. Usage: machines_test.py CLUSTER_PROGRAM WEFT TimesTest|BytesTest. Exits with 77 where namespaces
are not possible."""

import sys
import unittest
from pathlib import Path

import numbers_tool
import times

LEAST = 1.8  # of 2
MBIT = 200
BYTES = 32_000_000  # so many pieces that it matters little which rail had the last
UNEVEN_BYTES = 1_000_004  # which nothing divides


def least_us(operation, graph):
    hosts = ["-n", "2", "-p", "2", "-r", "2", "--rates", str(MBIT)]
    return times.least_us(hosts, sys.argv[1], operation, graph, BYTES)


class TimesTest(unittest.TestCase):
    def test_machines_exchange_in_half_the_time_of_their_ranks(self):
        across = numbers_tool.planning.ACROSS
        missed = times.reaches(LEAST, lambda: least_us("neighbor_allreduce", across) /
                               least_us("hierarchical_neighbor_allreduce", "ring"))
        self.assertIsNone(missed, f"below {LEAST} times as fast: {missed}")


class BytesTest(unittest.TestCase):
    def test_a_tensor_goes_to_the_neighbor_machine_in_each_direction(self):
        numbers = numbers_tool.planning
        runs = numbers_tool.runs.Runs(Path(sys.argv[2]))
        words = ("--sizes", str(UNEVEN_BYTES), "--seconds", "0.2")
        tiers = numbers.exchange_row(runs, MBIT, "hierarchical_neighbor_allreduce", "ring", *words)
        self.assertEqual(numbers.bytes_between_hosts(tiers), (UNEVEN_BYTES, UNEVEN_BYTES))
        flat = numbers.exchange_row(runs, MBIT, "neighbor_allreduce", numbers.ACROSS, *words)
        self.assertEqual(flat["network_bytes"], 4 * [UNEVEN_BYTES])


if __name__ == "__main__":
    possible = times.is_possible()
    if possible.returncode == 77:
        sys.exit(print(possible.stderr, file=sys.stderr) or 77)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
