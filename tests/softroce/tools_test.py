"""The `weft` command over RDMA, in the guest of tools/softroce: the self-test, figures beside perftest's, the list of
devices, and what an idle rank holds and uses.

usage: tools_test.py WEFT [UNITTEST WORDS…]; needs 2 hosts on 2 rails."""

import contextlib
import json
import os
import re
import select
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import cluster_test

LIMIT_S = 100  # of one command; the self-test has more
SELFTEST_S = 150
WIRE_PORT = 18600
# Between processes; the rest of the suite: test_transport_ib, in one process.
SELFTEST = "Faults,Path,Order,AKilledPeer,SharedMemoryIsRead,ACounterThat,ACountUnderALock,StrangersOf"
IDLE_S = 5
MOST_THREADS, MOST_DESCRIPTORS, MOST_CORE = 2, 10, 0.01  # of an interface; of a rank
WEFT = ""
PORTS = ("--device", "rx_h0r0", "--peer-device", "rx_h1r0")


def weft(*words, limit_s=LIMIT_S, env=None):
    return subprocess.run([WEFT, *map(str, words)], capture_output=True, text=True, timeout=limit_s, check=False, env=env)


def rows(text):
    return [json.loads(line) for line in text.splitlines()]


class SelftestTest(cluster_test.TimedCase):
    def test_faults_and_order_between_two_hosts(self):
        done = weft("selftest", "--transport", "ib", *PORTS, "--filter", SELFTEST, "--json", limit_s=SELFTEST_S)
        *checks, summary = rows(done.stdout)
        bad = [check for check in checks if check["result"] == "failed"]
        self.assertEqual((done.returncode, bad), (0, []), done.stderr)
        self.assertGreater(summary["ok"], 12)
        for check in checks:
            self.assertEqual((check["device"], check["peer_device"]), ("rx_h0r0:1", "rx_h1r0:1"))
        ran = {check["check"] for check in checks if check["result"] == "ok"}
        self.assertLess({"Processes.AKilledPeerIsAFailure", "Faults.AStoppedPeerGoesOnWhereItWas",
                         "Faults.AnInterfaceClosedUnderLoadLeavesTheOthersAlone",
                         "Path.GivenUpInTheMiddleOfAStreamItLosesNothingAndCarriesAgain"}, ran)
        slowest = sorted(checks, key=lambda check: -check["seconds"])[:3]
        print(f"selftest: {summary['ok']} checks in {summary['seconds']:.0f} s, the slowest:",
              ", ".join(f"{check['check']} {check['seconds']:.1f} s" for check in slowest))


class WireTest(cluster_test.TimedCase):
    def measured(self, *words):
        done = weft("perf", "wire", *words, *PORTS, "--seconds", "0.1", "--json", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        return rows(done.stdout)

    def assert_sane(self, row):
        self.assertEqual((row["transport"], row["device"], row["mtu"]), ("ib", "rx_h0r0", 4096))
        self.assertGreater(row["MiBps"], 0)
        self.assertGreaterEqual(row["peak_MiBps"], 0.99 * row["MiBps"])
        self.assertLess(row["line_share"], 1)
        self.assertTrue(0 < row["p50_us"] <= row["p99_us"] <= row["p999_us"], row)
        self.assertGreater(row["cpu_s_per_GiB"], 0)

    def test_every_operation_at_several_sizes(self):
        for operation in ("write", "read", "notice"):
            found = self.measured("--op", operation, "--sizes", "8,4K,64K")
            self.assertEqual([row["bytes"] for row in found], [8, 4096, 65536], operation)
            for row in found:
                self.assertEqual((row["op"], row["depth"]), (operation, 128))
                self.assert_sane(row)
            self.assertGreater(found[2]["MiBps"], found[0]["MiBps"], operation)

    def test_latencies(self):
        for operation in ("write", "read", "notice", "atomic"):
            for row in self.measured("--op", operation, "--sizes", "8", "--depth", "1"):
                self.assert_sane(row)
                self.assertEqual(row["half_round_trip"], operation in ("write", "notice"))

    def test_two_commands_that_know_each_other_by_a_port(self):
        """As on two machines."""
        environment = {**os.environ, "WEFT_JOB_KEY": "0123456789abcdef"}
        listens = subprocess.Popen([WEFT, "perf", "wire", "--listen", f"127.0.0.1:{WIRE_PORT}", "--device", "rx_h1r1"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        done = weft("perf", "wire", "--peer", f"127.0.0.1:{WIRE_PORT}", "--op", "read", "--sizes", "64K", "--device",
                    "rx_h0r1", "--seconds", "0.1", "--against", "perftest", "--rounds", 3, "--json", "-", env=environment)
        said = listens.communicate(timeout=LIMIT_S)[1]
        self.assertEqual((done.returncode, listens.returncode), (0, 0), said + done.stderr)
        row, = rows(done.stdout)
        self.assertEqual((row["device"], row["op"], row["peer"], row["rounds"]), ("rx_h0r1", "read", "ib_read_bw", 3))
        self.assertGreater(row["MiBps"], 0)

    def test_beside_perftest(self):
        row, = self.measured("--op", "write", "--sizes", "64K", "--against", "perftest")
        self.assert_sane(row)
        self.assertEqual((row["peer"], row["rounds"]), ("ib_write_bw", 7))
        lower, upper = row["ratio_quartiles"]
        self.assertLessEqual(lower, row["ratio"])
        self.assertLessEqual(row["ratio"], upper)
        self.assertGreater(row["peer_MiBps"], 0)
        self.assertTrue(0.01 < row["ratio"] < 100, row)
        print(f"wire: write of 64K {row['MiBps']:.1f} MiB/s, ib_write_bw {row['peer_MiBps']:.1f}, ratio {row['ratio']:.2f}")


class LanesTest(cluster_test.TimedCase):
    def test_two_lanes_on_two_rails_give_right_results(self):
        job = cluster_test.Job("perf", "neighbor_allreduce", "--lanes", "2", "--graph", "ring", "--transport", "automatic",
                               "--sizes", "2M,3M", "--seconds", "0.05", "--check", "--explain", hosts=2, rails=2)
        statuses, texts = job.end()
        self.assertEqual(statuses, [0, 0], texts)
        self.assertIn("in 2 stripes", "".join(texts))


class NetworksTest(cluster_test.TimedCase):
    """Which network a job takes without being told, and what it says where RDMA cannot be had."""

    WORDS = ("perf", "neighbor_allreduce", "--graph", "ring", "--transport", "automatic", "--sizes", "64K", "--seconds",
             "0.05", "--explain")

    def job(self, **how):
        """Exit statuses, and what all wrote to their error output, paths and reasons among it."""
        job = cluster_test.Job(*self.WORDS, hosts=2, rails=1, **how)
        statuses, texts = job.end()
        return statuses, texts

    def test_rdma_comes_first(self):
        statuses, texts = self.job(kinds=("", "rx_"))
        self.assertEqual(statuses, [0, 0], texts)
        self.assertRegex(texts[0], r"rank 1: ib:rx_h0r0/1 to rank 1 \(GID 1, 10\.0\.0\.1 to 10\.0\.0\.2: both RoCE v2, one subnet")

    def test_what_is_missing_is_named(self):
        listed = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
        library = re.search(r"libibverbs\.so\.1 .*=> (\S+)", listed)[1]
        without = ("unshare", "-m", "sh", "-c", 'mount --bind /dev/null "$0" && exec "$@"', os.path.realpath(library))
        statuses, texts = self.job(before=without)
        self.assertNotIn(0, statuses)
        for text in texts:
            self.assertIn("libibverbs.so.1", text)
        listed = subprocess.run([*without, WEFT, "devices"], capture_output=True, text=True, check=True).stdout
        self.assertRegex(listed, r"rx_h0r0/1 .*not usable: .*libibverbs\.so\.1")
        statuses, texts = self.job(kinds=("",), before=without)
        self.assertEqual(statuses, [0, 0], texts)
        self.assertIn("ucx:h0r0", texts[0])

    def test_memory_that_may_not_be_pinned(self):
        bound = ("setpriv", "--inh-caps=-ipc_lock", "--bounding-set=-ipc_lock", "prlimit", "--memlock=65536")
        statuses, texts = self.job(before=bound)
        self.assertNotIn(0, statuses)
        for text in texts:
            self.assertRegex(text, "ib:rx_h.r0/1.*ulimit -l")


class DevicesTest(cluster_test.TimedCase):
    def test_ports_with_their_addresses_and_reasons(self):
        ports = json.loads(weft("devices", "--json").stdout)["rdma_ports"]
        self.assertEqual([port["device"] for port in ports], ["rx_h0r0", "rx_h0r1", "rx_h1r0", "rx_h1r1"])
        for port in ports:
            host, rail = re.fullmatch(r"rx_h(\d)r(\d)", port["device"]).groups()
            self.assertEqual((port["usable"], port["reason"]), (True, "is active"))
            self.assertEqual((port["mtu"], port["netdev_mtu"]), (4096, 4200))
            made, given = port["gids"]
            self.assertFalse(made["usable"])
            self.assertIn("made by the card", made["reason"])
            self.assertTrue(given["usable"])
            self.assertEqual((given["ip"], given["prefix_bits"]), (f"10.{rail}.0.{int(host) + 1}", 24))

    def test_a_port_that_is_down_is_refused_by_name(self):
        state = Path("/sys/class/infiniband/rx_h1r1/ports/1/state")
        cluster_test.tell("ip", "link", "set", "port-h1r1", "down")
        try:
            cluster_test.wait_until(lambda: "DOWN" in state.read_text("ascii"))
            self.assertRegex(weft("devices").stdout, r"rx_h1r1/1 .* not usable: state is DOWN: h1r1 has no carrier")
            for words, status in ((("selftest", "--transport", "ib"), 1), (("perf", "wire", "--op", "write"), 1)):
                for devices in (("--device", "rx_h1r1"), ("--device", "rx_h0r1", "--peer-device", "rx_h1r1")):
                    done = weft(*words, *devices)
                    self.assertEqual((done.returncode, done.stdout), (status, ""), (words, devices))
                    self.assertIn("rx_h1r1", done.stderr)
                    self.assertRegex(done.stderr, "DOWN|not active")
        finally:
            cluster_test.tell("ip", "link", "set", "port-h1r1", "up")
            cluster_test.wait_until(lambda: "ACTIVE" in state.read_text("ascii"))


class TopologyTest(cluster_test.TimedCase):
    def test_ports_are_seen_kept_in_a_file_and_planned_with(self):
        names = ["rx_h0r0", "rx_h0r1", "rx_h1r0", "rx_h1r1"]
        seen = json.loads(weft("topo", "--json").stdout)["nics"]
        self.assertEqual([nic["name"] for nic in seen if nic["rdma"]], names)
        self.assertEqual([nic["netdev"] for nic in seen if nic["rdma"]], [name[3:] for name in names])
        with tempfile.TemporaryDirectory() as folder:
            machine, cluster = Path(folder, "machine.xml"), Path(folder, "cluster.toml")
            machine.write_text(weft("topo", "--xml").stdout, "utf-8")
            self.assertEqual(json.loads(weft("topo", "--from", machine, "--json").stdout)["nics"], seen)
            rails = "".join(f'[[rail]]\nnics = ["rx_h0r{rail}"]\ngbit_per_s = 0.1\n' for rail in range(2))
            cluster.write_text(f'[[machine]]\ncount = 3\nlike = "machine.xml"\nranks = 1\n{rails}', "utf-8")
            found = json.loads(weft("map", "--cluster", cluster, "--graph", "ring", "--json").stdout)
            ideal = 2 * 2 ** 20 * 8 / 0.2 / 1e3  # us: two neighbors, two rails
            self.assertAlmostEqual(found["us"], ideal, delta=ideal / 100)
            predicted, = rows(weft("predict", "--cluster", cluster, "--operation", "neighbor_allreduce", "--graph", "ring",
                                   "--sizes", "1M", "--json", "-").stdout)
            self.assertAlmostEqual(predicted["us"], ideal, delta=ideal / 10)


def held_by(pid):
    """Threads, and what descriptors lead to."""
    folder = Path(f"/proc/{pid}")
    descriptors = [os.readlink(each) for each in (folder / "fd").iterdir()]
    return len(list((folder / "task").iterdir())), sorted(descriptors)


class IdleTest(cluster_test.TimedCase):
    def idle(self, transport, hosts, rails):
        """What a rank holds while it is idle, connected to its neighbor, and the largest share of a core of all."""
        job = cluster_test.Job("perf", "idle", "--transport", transport, "--seconds", IDLE_S, "--json", "-",
                               hosts=hosts, rails=rails)
        rank = job.ranks[0]
        end = os.pidfd_open(rank.pid)
        seen = []
        for _ in range(int(10 * LIMIT_S)):
            if select.select([end], [], [], 0.1)[0]:
                break
            with contextlib.suppress(OSError):  # a descriptor closed meanwhile
                seen.append(held_by(rank.pid))
        os.close(end)
        out = rank.communicate(timeout=LIMIT_S)[0]
        statuses, texts = job.end()
        self.assertEqual(statuses, [0] * hosts, "".join(texts))
        middle = seen[-int(10 * IDLE_S / 2)]  # it was idle for the last IDLE_S
        return *middle, json.loads(out)["core_share"]

    def test_what_an_interface_costs(self):
        # Without any there is the process itself: standard streams, the rendezvous, the context.
        jobs = [self.idle("shm", 1, 0), self.idle("ib", 2, 1), self.idle("ib", 2, 2)]
        threads, descriptors, share = zip(*jobs)
        counts = [len(each) for each in descriptors]
        print(f"idle, with 0, 1 and 2 interfaces: {threads} threads, {counts} descriptors, "
              f"{share[0]:.3%}, {share[1]:.3%} and {share[2]:.3%} of a core")
        for one, two in ((0, 1), (1, 2)):
            self.assertLessEqual(threads[two] - threads[one], MOST_THREADS)
            self.assertLessEqual(counts[two] - counts[one], MOST_DESCRIPTORS, descriptors)
        self.assertLess(max(share), MOST_CORE)


if __name__ == "__main__":
    WEFT = cluster_test.PROGRAM = sys.argv.pop(1)
    unittest.main()
