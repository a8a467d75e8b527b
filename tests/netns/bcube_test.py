"""What a second rail is worth to an allreduce: BCube(2, 2) on two rails beside a ring on one, the network as the
bottleneck. The gate is wider than that of `tools/numbers 4`, 1.8 of 2. Usage: bcube_test.py CLUSTER_PROGRAM. Exits with 77
where namespaces are not possible."""

import sys
import unittest

import times

LEAST = 1.5
BYTES = 8_000_000  # a second by ring


def least_us(rails, algorithm):
    return times.least_us(["-n", "4", "-r", str(rails), "--rates", "100"], sys.argv[1], f"allreduce:{algorithm}",
                          "exponential", BYTES)


class BcubeTest(unittest.TestCase):
    def test_two_rails_are_nearly_twice_as_fast_as_one(self):
        missed = times.reaches(LEAST, lambda: least_us(1, "ring") / least_us(2, "bcube"))
        self.assertIsNone(missed, f"below {LEAST} times as fast: {missed}")


if __name__ == "__main__":
    possible = times.is_possible()
    if possible.returncode == 77:
        sys.exit(print(possible.stderr, file=sys.stderr) or 77)
    unittest.main(argv=sys.argv[:1])
