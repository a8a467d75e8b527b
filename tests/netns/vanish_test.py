"""Network interfaces that are removed, not only cut: under way, and between looking and starting.

usage: tools/netns -n 2 -r 2 --rates 200 vanish_test.py CLUSTER_PROGRAM; every byte of a result is checked by the
ranks themselves."""

import os
import subprocess
import sys
import time
import unittest

LIMIT_S = 40
PORT = 29600  # of the first rendezvous, on rail 0 of host 0
NAMES = os.environ.get("NETNS_NAMES", "").split()
PROGRAM = ""


def on(host, *words):
    return ["ip", "netns", "exec", NAMES[host], *map(str, words)]


def asked(host, file):
    """Of the interface that vanishes."""
    done = subprocess.run(on(host, "cat", f"/sys/class/net/extra/{file}"), capture_output=True, text=True, check=True)
    return done.stdout.strip()


def tell(*words):
    subprocess.run(["ip", *words], check=True)


def remove():
    """With it goes the other end."""
    tell("-n", NAMES[1], "link", "del", "extra")


class Job:
    count = 0

    def __init__(self, *words, interfaces=("", "")):
        Job.count += 1
        self.ranks = []
        for host in range(2):
            environment = dict(os.environ, WEFT_RANK=str(host), WEFT_SIZE="2", WEFT_HOST=f"host{host}", WEFT_LOCAL_RANK="0",
                               WEFT_LOCAL_SIZE="1", WEFT_LOCAL_CORES="1", WEFT_RENDEZVOUS=f"10.0.0.1:{PORT + Job.count}",
                               WEFT_JOB_KEY="key of vanish_test", WEFT_DEADLINE_MS="20000", WEFT_INTERFACES=interfaces[host])
            self.ranks.append(subprocess.Popen(on(host, PROGRAM, *words), env=environment, text=True,
                                               stdout=subprocess.PIPE, stderr=subprocess.PIPE))

    def end(self):
        """Exit statuses, and what each wrote to its error output."""
        texts = [rank.communicate(timeout=LIMIT_S)[1] for rank in self.ranks]
        return [rank.returncode for rank in self.ranks], texts


class VanishTest(unittest.TestCase):
    def setUp(self):
        """A third way between the two hosts."""
        tell("link", "add", "extra", "netns", NAMES[0], "type", "veth", "peer", "name", "extra", "netns", NAMES[1])
        for host in range(2):
            tell("-n", NAMES[host], "addr", "add", f"10.9.0.{host + 1}/24", "dev", "extra")
            tell("-n", NAMES[host], "link", "set", "extra", "up")
        for host in range(2):  # the kernel takes its time to say so
            self.wait_until(lambda host=host: asked(host, "operstate") == "up")

    def wait_until(self, predicate):
        end = time.monotonic() + LIMIT_S
        while not predicate():
            self.assertLess(time.monotonic(), end, "what the test waits for did not happen")

    def test_under_way_the_other_rails_carry_on(self):
        job = Job("neighbor_allreduce", "ring", 16_000_000, 5)
        self.wait_until(lambda: int(asked(1, "statistics/tx_bytes")) > 4_000_000)
        remove()
        statuses, texts = job.end()
        self.assertEqual(statuses, [0, 0], texts)
        self.assertIn("over ucx:extra given up, its pieces go over the other rails", "".join(texts))

    def test_before_it_is_opened_it_is_named(self):
        """By the rank that was to have it; the other one has an error that names this rank."""
        remove()
        for interfaces in (("rail0,extra", "rail0"), ("rail0", "rail0,extra")):
            statuses, texts = Job("neighbor_allreduce", "ring", 4, 1, interfaces=interfaces).end()
            self.assertNotIn(0, statuses)
            for rank, text in enumerate(texts):
                named = "WEFT_INTERFACES names extra, which this machine does not have"
                if "extra" in interfaces[rank]:
                    self.assertIn(named, text)
                    self.assertNotIn("has left the job", text)
                else:
                    self.assertIn(f"rank {1 - rank}", text)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
