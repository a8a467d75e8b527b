"""Jobs over RDMA in the guest of tools/softroce, with cables pulled, packets lost, ranks stopped and killed; every
byte of every result is checked by the ranks themselves.

usage: cluster_test.py CLUSTER_PROGRAM [ClusterTest[.NAME]]; needs 4 hosts on 2 rails."""

import contextlib
import ipaddress
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

HOSTS, RAILS = 4, 2
MIB = 1 << 20
LIMIT_S = 150  # of one job; an emulated processor is slow, and another guest may run beside it
POLL_S = 0.005
PORT = 29600  # of the first rendezvous; every job has one of its own
PROGRAM = ""


def carried(host, rail):
    """Bytes that the switch got from a host's port."""
    return int(Path(f"/sys/class/net/port-h{host}r{rail}/statistics/rx_bytes").read_text("ascii"))


def delivered(host, rail):
    """Packets that the switch gave to a host's port."""
    return int(Path(f"/sys/class/net/h{host}r{rail}/statistics/rx_packets").read_text("ascii"))


def dropped(*ports):
    """Packets that netem has lost on ports."""
    shown = [subprocess.run(["tc", "-s", "qdisc", "show", "dev", port], capture_output=True, text=True, check=True).stdout
             for port in ports]
    return sum(int(re.search(r"dropped (\d+)", each).group(1)) for each in shown)


def errors_of(text):
    """What a rank said beside its warnings, which name whoever a path led to."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("weft warning"))


def overtaken():
    """Packets that came after one that was sent later, as all ports have counted them."""
    counters = Path("/sys/class/infiniband").glob("rx_*/ports/1/hw_counters/out_of_seq_request")
    return sum(int(each.read_text("ascii")) for each in counters)


def tell(*words):
    subprocess.run(words, check=True)


def wait_until(predicate):
    end = time.monotonic() + LIMIT_S
    while not predicate():
        if time.monotonic() > end:
            raise TimeoutError("what the test waits for did not happen")
        select.select([], [], [], POLL_S)  # counters tell nobody of a change


def move(port, old, new):
    """Gives a port another address, of whatever network, as the harness does: the hosts have one kernel."""
    left, network = (ipaddress.ip_interface(f"{each}/24").network.with_prefixlen for each in (old, new))
    rules = subprocess.run(["ip", "rule"], capture_output=True, text=True, check=True).stdout.splitlines()
    (table,) = [line.split()[-1] for line in rules if f"from {old} " in line]
    tell("ip", "rule", "del", "pref", "10", "iif", "lo", "from", old, "to", left, "lookup", table)
    tell("ip", "address", "del", f"{old}/24", "dev", port)
    tell("ip", "address", "add", f"{new}/24", "dev", port, "noprefixroute")
    tell("ip", "route", "add", "local", new, "dev", port, "table", table)
    tell("ip", "route", "replace", network, "dev", port, "src", new, "table", table)
    tell("ip", "rule", "add", "pref", "10", "iif", "lo", "from", new, "to", network, "lookup", table)


@contextlib.contextmanager
def spoiled(netem):
    """Every port of every host."""
    ports = [f"h{host}r{rail}" for host in range(HOSTS) for rail in range(RAILS)]
    for port in ports:
        tell("tc", "qdisc", "replace", "dev", port, "root", "netem", *netem.split())
    try:
        yield
    finally:
        for port in ports:
            tell("tc", "qdisc", "del", "dev", port, "root")


@contextlib.contextmanager
def shaped(*rates):
    """What every port sends and gets is slowed to the rate of its rail, in Mbit/s, as `tools/softroce --rates` does."""
    processors = os.cpu_count()
    ends = [(rail, host, end) for rail in range(len(rates)) for host in range(HOSTS)
            for end in (f"h{host}r{rail}", f"port-h{host}r{rail}")]
    order = {end: Path(f"/sys/class/net/{end}/queues/rx-0/rps_cpus") for _, _, end in ends}
    for rail, host, end in ends:
        order[end].write_text(f"{1 << host % processors:x}", "ascii")  # one processor keeps the packets' order
        shape(end, rates[rail])
    try:
        yield
    finally:
        for end, file in order.items():
            tell("tc", "qdisc", "del", "dev", end, "root")
            file.write_text("0", "ascii")


def shape(end, mbit):
    """One end of a cable."""
    tell("tc", "qdisc", "replace", "dev", end, "root", "tbf", "rate", f"{mbit}mbit", "burst", "100kb", "limit", "4mb")


UNTIL_TOLD = 0  # rounds: as many as there is time for until `end`


class Job:
    """`each` ranks per host, or as many as it names for each; host h with the interfaces of its own ports on the first `rails`, or on those that `rails` names
    for it: as RDMA devices, or as what `kinds` are. The program is started by `before`."""

    count = 0

    def __init__(self, *words, hosts=HOSTS, rails=RAILS, each=1, kinds=("rx_",), before=(), program="", **variables):
        Job.count += 1
        self.ranks = []
        counts = [each] * hosts if isinstance(each, int) else each
        places = [(host, local) for host in range(hosts) for local in range(counts[host])]
        for rank, (host, local) in enumerate(places):
            own = range(rails) if isinstance(rails, int) else rails[host]
            environment = dict(os.environ, WEFT_RANK=str(rank), WEFT_SIZE=str(len(places)), WEFT_HOST=f"host{host}",
                               WEFT_LOCAL_RANK=str(local), WEFT_LOCAL_SIZE=str(counts[host]), WEFT_LOCAL_CORES="1",
                               WEFT_RENDEZVOUS=f"127.0.0.1:{PORT + Job.count}", WEFT_JOB_KEY="key of cluster_test",
                               WEFT_INTERFACES=",".join(f"{kind}h{host}r{rail}" for kind in kinds for rail in own),
                               **variables)
            self.ranks.append(subprocess.Popen([*before, program or PROGRAM, *map(str, words)], env=environment, text=True,
                                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE))

    def end(self, limit_s=LIMIT_S):
        """Exit statuses, and what all wrote to their error output. Rank 0's input ends."""
        try:
            said = [rank.communicate(timeout=limit_s) for rank in self.ranks]
        except subprocess.TimeoutExpired:
            for rank in self.ranks:  # the next job needs the processors
                rank.kill()
            raise
        self.out = said[0][0]  # of rank 0
        return [rank.returncode for rank in self.ranks], [text for _, text in said]


class TimedCase(unittest.TestCase):
    """Prints what each test took: the time of a guest is a large part of that of all tests."""

    def run(self, result=None):
        begin = time.monotonic()
        result = super().run(result)
        print(f"{self._testMethodName}: {time.monotonic() - begin:.0f} s", flush=True)
        return result


class ClusterCase(TimedCase):
    def assert_right(self, job):
        statuses, texts = job.end()
        self.assertEqual(statuses, [0] * len(statuses), "".join(texts))
        return "".join(texts)


class ClusterTest(ClusterCase):
    def test_a_few_bytes(self):
        self.assertEqual(self.assert_right(Job("neighbor_allreduce", "exponential", 4, 100)), "")

    def test_machines_of_two_ranks_exchange_one_tensor(self):
        before = [carried(0, rail) for rail in range(RAILS)]
        rounds, size = 4, 2_000_000  # two to warm up
        job = Job("hierarchical_neighbor_allreduce", "ring", size, rounds - 2, hosts=2, each=2)
        self.assertEqual(self.assert_right(job), "")
        sent = [carried(0, rail) - before[rail] for rail in range(RAILS)]
        for each in sent:  # and headers, acknowledgements, packets that were sent twice
            self.assertTrue(rounds * size / 2 < each < 1.5 * rounds * size / 2, sent)

    def test_machines_with_different_numbers_of_ranks(self):
        for operation in ("hierarchical_neighbor_allreduce", "allreduce:hierarchical"):
            self.assertEqual(self.assert_right(Job(operation, "ring", 400_000, 1, 0, hosts=2, each=(3, 1))), "", operation)

    def test_allreduce_in_machines_first(self):
        self.assertEqual(self.assert_right(Job("allreduce:hierarchical", "ring", 1_000_000, 1, 0, hosts=2, each=2)), "")

    def test_what_a_failed_path_still_delivers_lands_nowhere(self):
        """All that goes to host 1 on rail 1 comes seconds late, long after it was sent again on rail 0."""
        late_s = 2.5  # it is given up after one
        before = carried(1, 1)
        job = Job("neighbor_allreduce", "ring", 4_000_000, UNTIL_TOLD, hosts=2)
        wait_until(lambda: carried(1, 1) - before > 1_000_000)
        tell("tc", "qdisc", "add", "dev", "port-h1r1", "root", "netem", "delay", f"{late_s}s", "limit", "10000")
        since, held = time.monotonic(), delivered(1, 1)
        try:
            wait_until(lambda: time.monotonic() > since + late_s / 2)
            self.assertLess(delivered(1, 1) - held, 100)
            wait_until(lambda: delivered(1, 1) - held > 100)
            late = delivered(1, 1) - held
            said = self.assert_right(job)
        finally:
            tell("tc", "qdisc", "del", "dev", "port-h1r1", "root")
        self.assertIn("given up, its pieces go over the other rails", said)
        print(f"after the path was given up it delivered {late} packets more")

    def test_a_cable_that_is_back_carries_again(self):
        before = carried(1, 1)
        job = Job("neighbor_allreduce", "ring", 4_000_000, UNTIL_TOLD, hosts=2)
        wait_until(lambda: carried(1, 1) - before > 1_000_000)
        tell("ip", "link", "set", "port-h1r1", "down")
        pulled = carried(1, 0)
        wait_until(lambda: carried(1, 0) - pulled > 3_000_000)
        tell("ip", "link", "set", "port-h1r1", "up")
        plugged = carried(1, 1)
        wait_until(lambda: carried(1, 1) - plugged > 300_000)
        said = self.assert_right(job)
        self.assertIn("over ib:rx_h1r1/1 is back", said)

    def test_a_pulled_cable_changes_no_bit(self):
        bits = str(Path(PROGRAM).parent / "bits_program")
        before = carried(1, 1)
        job = Job(8, 4_000_000, hosts=2, each=2, program=bits, WEFT_BITS="fixed")
        wait_until(lambda: carried(1, 1) - before > 1_000_000)
        tell("ip", "link", "set", "port-h1r1", "down")
        try:
            self.assertIn("given up", self.assert_right(job))
        finally:
            tell("ip", "link", "set", "port-h1r1", "up")
        self.assertIn("8 times the bits of the sum in rank order", job.out)

    def test_a_cable_that_is_out_at_the_start_carries_once_it_is_in(self):
        tell("ip", "link", "set", "port-h1r1", "down")
        plain = carried(1, 0)
        job = Job("neighbor_allreduce", "ring", 4_000_000, UNTIL_TOLD, hosts=2)
        try:
            wait_until(lambda: carried(1, 0) - plain > 3_000_000)
        finally:
            tell("ip", "link", "set", "port-h1r1", "up")
        plugged = carried(1, 1)
        wait_until(lambda: carried(1, 1) - plugged > 300_000)
        self.assert_right(job)

    def test_a_rail_that_swallows_everything_is_told_by_the_device(self):
        """Its ports stay up: the queue pair says that nobody answered so many times."""
        before = carried(1, 1)
        job = Job("neighbor_allreduce", "ring", 1_000_000, 15, hosts=2, WEFT_IB_TIMEOUT="16", WEFT_IB_RETRIES="2",
                  WEFT_PATH_SILENCE_MS="10000")
        wait_until(lambda: carried(1, 1) - before > 1_000_000)
        for port in ("h1r1", "port-h1r1"):
            tell("tc", "qdisc", "add", "dev", port, "root", "netem", "loss", "100%")
        try:
            said = self.assert_right(job)
        finally:
            for port in ("h1r1", "port-h1r1"):
                tell("tc", "qdisc", "del", "dev", port, "root")
        self.assertRegex(said, "rx_h[01]r1/1 given up, its pieces go over the other rails: .*transport retry counter exceeded")

    def test_hosts_with_different_ports_on_rails_that_are_apart(self):
        before = [carried(host, rail) for host in range(3) for rail in range(RAILS)]
        job = Job("neighbor_allreduce", "ring", 1_000_000, 1, 0, hosts=3, rails=((0, 1), (1,), (0, 1)))
        self.assertEqual(self.assert_right(job), "")
        now = [carried(host, rail) for host in range(3) for rail in range(RAILS)]
        sent = [there - here for here, there in zip(before, now)]
        self.assertLess(sent[2], 10_000, sent)  # host 1 has nothing on rail 0 …
        for place in (0, 1, 3, 4, 5):
            self.assertGreater(sent[place], 100_000, sent)

    def test_ports_that_do_not_reach_each_other(self):
        """All addresses are of one network, and host 1 has its ports in the other order: nothing tells the rails apart."""
        moves = [(f"h{host}r{rail}", f"10.{rail}.0.{host + 1}", f"10.9.0.{10 * rail + host + 1}")
                 for host in range(2) for rail in range(RAILS)]
        before = [carried(host, rail) for host in range(2) for rail in range(RAILS)]
        for port, old, new in moves:
            move(port, old, new)
        try:
            said = self.assert_right(Job("neighbor_allreduce", "ring", 1_000_000, 3, hosts=2, rails=((0, 1), (1, 0))))
        finally:
            for port, old, new in moves:
                move(port, new, old)
        self.assertRegex(said, 
                         "path to rank 1: ib:rx_h0r0/1 does not reach rx_h1r1 .*; it moves from ib:rx_h0r0/1 to rx_h1r0 now")
        now = [carried(host, rail) for host in range(2) for rail in range(RAILS)]
        for here, there in zip(before, now):
            self.assertGreater(there - here, 1_000_000)

    def test_a_port_gets_another_address(self):
        before = carried(1, 1)
        job = Job("neighbor_allreduce", "ring", 4_000_000, UNTIL_TOLD, hosts=2)
        wait_until(lambda: carried(1, 1) - before > 1_000_000)
        move("h1r1", "10.1.0.2", "10.1.0.77")
        try:
            moved = carried(1, 1)
            wait_until(lambda: carried(1, 1) - moved > 8_000_000)
            said = self.assert_right(job)
        finally:
            move("h1r1", "10.1.0.77", "10.1.0.2")
        self.assertRegex(said, r"ib:rx_h1r1/1: its addresses \(GIDs\) are .*10\.1\.0\.77 now")
        self.assertIn("over ib:rx_h1r1/1 is back", said)

    def test_one_packet_in_a_hundred_is_lost(self):
        with spoiled("loss 1% limit 10000"):
            self.assert_right(Job("neighbor_allreduce", "ring", MIB, 1, 0))
            self.assertGreater(dropped(*(f"h{host}r{rail}" for host in range(HOSTS) for rail in range(RAILS))), 10)

    def test_packets_that_overtake_each_other(self):
        # Soft-RoCE then sends most of them again, after this timeout: 67 ms instead of a second.
        before = overtaken()
        with spoiled("delay 10ms 10ms limit 10000"):
            self.assert_right(Job("neighbor_allreduce", "ring", MIB, 1, 0, hosts=2, WEFT_IB_TIMEOUT="14"))
        self.assertGreater(overtaken() - before, 10)

    def test_a_stopped_rank_is_waited_for(self):
        """By two others, each with more pieces for it under way than its receive queue has places."""
        before = carried(0, 0)
        job = Job("neighbor_allreduce", "ring", 18_000_000, 1, 0, hosts=3, rails=1, WEFT_IB_RECEIVE_DEPTH="64",
                  WEFT_RAIL_SLOTS="128")
        wait_until(lambda: carried(0, 0) - before > 2_000_000)
        job.ranks[1].send_signal(signal.SIGSTOP)
        still = [0, 0.0]  # bytes that ranks 0 and 2 have sent, and since when they send no more

        def nothing_moves():
            now = carried(0, 0) + carried(0, 1) + carried(2, 0) + carried(2, 1)
            if now > still[0] + 10_000:
                still[:] = [now, time.monotonic()]
            return time.monotonic() > still[1] + 1.5

        wait_until(nothing_moves)
        job.ranks[1].send_signal(signal.SIGCONT)
        self.assert_right(job)

    def test_no_rail_is_blamed_for_a_stopped_rank(self):
        before = [carried(0, rail) for rail in range(RAILS)]
        job = Job("neighbor_allreduce", "ring", 8_000_000, 2, 0, hosts=2)
        wait_until(lambda: all(carried(0, rail) - before[rail] > 1_000_000 for rail in range(RAILS)))
        job.ranks[1].send_signal(signal.SIGSTOP)
        since = time.monotonic()
        wait_until(lambda: time.monotonic() > since + 3)  # silence is half a second
        job.ranks[1].send_signal(signal.SIGCONT)
        self.assertNotIn("given up", self.assert_right(job))

    def test_survivors_name_the_rank_that_was_killed(self):
        before = carried(1, 0)
        job = Job("neighbor_allreduce", "exponential", 4_000_000, 50)
        wait_until(lambda: carried(1, 0) - before > 2_000_000)
        job.ranks[1].kill()
        begin = time.monotonic()
        statuses, texts = job.end()
        took = time.monotonic() - begin
        print(f"a rank was killed: {took:.2f} s until all others had ended")
        for rank in (0, 2, 3):
            self.assertNotEqual(statuses[rank], 0, texts[rank])
            self.assertIn("rank 1", errors_of(texts[rank]), texts[rank])
            self.assertNotIn("timed_out", errors_of(texts[rank]), "it was not told, and waited for its deadline")

    def test_the_packets_of_a_slow_wire_keep_their_order(self):
        """Otherwise all that is sent twice, and now and then a timeout, would be part of what is measured there."""
        with shaped(100, 100):
            before = overtaken()
            self.assert_right(Job("neighbor_allreduce", "ring", 4_000_000, 1))
            self.assertEqual(overtaken(), before)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
