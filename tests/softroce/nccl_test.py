"""The network plugin for NCCL over RDMA between two hosts in the guest of tools/softroce: with all cables in, and with
one that is pulled in the middle of a message; every byte is checked by the receiver.

usage: nccl_test.py PAIR [NcclTest[.NAME]]; needs 2 hosts on 2 rails."""

import os
import select
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

LIMIT_S = 120
POLL_S = 0.005
MESSAGES, BYTES = 30, 2_000_000
PROGRAM = ""


def carried(host, rail):
    """Bytes that the switch got from a host's port."""
    return int(Path(f"/sys/class/net/port-h{host}r{rail}/statistics/rx_bytes").read_text("ascii"))


def wait_until(predicate):
    end = time.monotonic() + LIMIT_S
    while not predicate():
        if time.monotonic() > end:
            raise TimeoutError("what was waited for did not come")
        select.select([], [], [], POLL_S)


class NcclTest(unittest.TestCase):
    def start(self, folder):
        """The receiver is on host 1."""
        ends = []
        for host in (1, 0):
            environment = dict(os.environ, WEFT_TRANSPORTS="ib", WEFT_INTERFACES=f"rx_h{host}r0,rx_h{host}r1")
            ends.append(subprocess.Popen([PROGRAM, str(host), f"{folder}/handle", str(MESSAGES), str(BYTES)], text=True,
                                         env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return ends

    def finish(self, ends):
        for end in ends:
            out, errors = end.communicate(timeout=LIMIT_S)
            self.assertEqual(end.returncode, 0, out + errors)

    def test_messages_take_both_rails(self):
        before = [carried(0, rail) for rail in range(2)]
        with tempfile.TemporaryDirectory() as folder:
            self.finish(self.start(folder))
        for rail in range(2):
            self.assertGreater(carried(0, rail) - before[rail], MESSAGES * BYTES / 5, f"rail {rail}")

    def test_a_cable_is_pulled(self):
        for rail in range(2):
            before = carried(0, rail)
            with self.subTest(rail=rail), tempfile.TemporaryDirectory() as folder:
                ends = self.start(folder)
                wait_until(lambda rail=rail, before=before: carried(0, rail) - before > 4 * BYTES)
                try:
                    subprocess.run(["ip", "link", "set", f"port-h1r{rail}", "down"], check=True)
                    self.finish(ends)
                finally:
                    subprocess.run(["ip", "link", "set", f"port-h1r{rail}", "up"], check=True)
                    for end in ends:
                        end.kill()


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main(verbosity=2)
