"""tools/netns from outside: rates hold, cuts cut, and nothing is left however a run ends.

usage: harness_test.py RatesTest|HarnessTest. Exits with 77 where namespaces are not possible."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
NETNS = HERE.parent.parent / "tools" / "netns"
LIMIT_S = 60
MBIT = 12  # slow: the bucket of 100 kB then outlasts a pause of 60 ms of a busy machine
TRIES = 4
SHARE = (0.90, 1.02)  # of the rate; the first 100 kB pass at once


def netns(*words):
    return subprocess.run([NETNS, *map(str, words)], capture_output=True, text=True, timeout=LIMIT_S, check=False)


def start(*words):
    return subprocess.Popen([NETNS, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def names_of(pid):
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if line.startswith(f"weft-{pid}-")]


class RatesTest(unittest.TestCase):
    def traffic(self, *rails):
        """Mbit/s by (host, rail)."""
        done = netns("-n", 2, "-r", 2, "--rates", MBIT, "--each", sys.executable, HERE / "traffic.py", 4, *rails)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [json.loads(line.partition("] ")[2]) for line in done.stdout.splitlines()]
        return {(row["host"], row["rail"]): row["mbit"] for row in rows}

    def check_rates(self, *rails):
        """No try may exceed the rate, and one must reach it: a busy machine does not always keep up."""
        for _ in range(TRIES):
            figures = self.traffic(*rails)
            self.assertEqual(set(figures), {(host, rail) for host in range(2) for rail in rails})
            self.assertLessEqual(max(figures.values()), SHARE[1] * MBIT, figures)
            if min(figures.values()) >= SHARE[0] * MBIT:
                return
        self.fail(f"below {SHARE[0]} of {MBIT} Mbit/s {TRIES} times: {figures}")

    def test_rate_of_one_rail_holds(self):
        self.check_rates(0)

    def test_two_rails_carry_twice_as_much(self):
        self.check_rates(0, 1)


class HarnessTest(unittest.TestCase):
    def test_cut_and_mend(self):
        done = netns("-n", 2, "-r", 2, sys.executable, HERE / "cut.py")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_timetable(self):
        until_cut = "until grep -q down /sys/class/net/rail0/operstate; do :; done"
        done = netns("-n", 2, "--cut", "1:0@0.1", "--each", "sh", "-c", f"[ $NETNS_HOST = 0 ] || {until_cut}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("netns: down 1 0 at 0.1 s: ok", done.stderr)

    def test_ranks_of_every_host(self):
        done = netns("-n", 2, "-p", 2, "--each", "sh", "-c", "echo $WEFT_HOST $WEFT_RANK of $WEFT_SIZE; echo e >&2")
        self.assertEqual(sorted(done.stdout.splitlines()),
                         ["[host0 0] host0 0 of 4", "[host0 1] host0 1 of 4",
                          "[host1 0] host1 2 of 4", "[host1 1] host1 3 of 4"])
        self.assertEqual(sorted(done.stderr.splitlines()),
                         ["[host0 0] e", "[host0 1] e", "[host1 0] e", "[host1 1] e"])

    def test_exit_status_is_passed_on(self):
        self.assertEqual(netns("sh", "-c", "exit 5").returncode, 5)
        self.assertEqual(netns("sh", "-c", "kill -9 $$").returncode, 137)
        self.assertEqual(netns("--each", "sh", "-c", "exit $((NETNS_HOST * 3))").returncode, 3)

    def test_nothing_is_left_after_success_and_failure(self):
        for status in (0, 1):
            run = start("sh", "-c", f"echo $NETNS_NAMES; exit {status}")
            out, _ = run.communicate(timeout=LIMIT_S)
            self.assertIn(f"weft-{run.pid}-host1", out)
            self.assertEqual((run.returncode, names_of(run.pid)), (status, []))

    def test_nothing_is_left_after_a_signal_even_beside_another_run(self):
        other = start("--each", "sh", "-c", "echo ready; exec tail -f /dev/null")
        run = start("--each", "sh", "-c", "echo ready; exec tail -f /dev/null")
        for each in (other, run):
            self.assertIn("ready", each.stdout.readline())
        for each, number in ((run, signal.SIGTERM), (other, signal.SIGINT)):
            self.assertEqual(len(names_of(each.pid)), 3)
            each.send_signal(number)
            each.communicate(timeout=LIMIT_S)
            self.assertEqual((each.returncode, names_of(each.pid)), (128 + number, []))

    def test_what_a_killed_run_leaves_is_removed_by_the_next(self):
        run = start("--each", "sh", "-c", "echo $$; exec tail -f /dev/null")
        pid = int(run.stdout.readline().split()[-1])
        run.kill()
        run.wait(timeout=LIMIT_S)
        self.assertEqual(len(names_of(run.pid)), 3)
        done = netns("true")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"removing weft-{run.pid}-host0", done.stderr)
        self.assertEqual(names_of(run.pid), [])
        self.assertFalse(os.path.exists(f"/proc/{pid}") and b"forever" in Path(f"/proc/{pid}/cmdline").read_bytes())
        run.communicate(timeout=LIMIT_S)

    def test_wrong_arguments_are_refused(self):
        for words, text in ((["-n", 0, "true"], "--hosts 0: expected 1 to 250"), ([], "COMMAND is missing"),
                            (["--cut", "1:0", "true"], "is not HOST:RAIL@SECONDS"),
                            (["--mend", "2:0@1", "true"], "no host 2 with a rail 0"),
                            (["--rates", "1,2,3", "true"], "--rates 1,2,3: expected Mbit/s")):
            done = netns(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(text, done.stderr)

    def test_without_root_it_skips_and_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            copy = shutil.copy(NETNS, folder)
            done = subprocess.run(["/usr/bin/python3", copy, "true"], user=65534, capture_output=True, text=True,
                                  timeout=LIMIT_S, check=False)
        self.assertEqual(done.returncode, 77)
        self.assertRegex(done.stderr, re.escape("netns: skipped: no namespaces here: needs root"))


if __name__ == "__main__":
    possible = netns("true")
    if possible.returncode == 77:
        sys.exit(print(possible.stderr, file=sys.stderr) or 77)
    unittest.main()
