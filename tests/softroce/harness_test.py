"""tools/softroce from outside: the cluster is as promised, what COMMAND says and leaves comes back, and nothing else
is left however a run ends. A boot takes several seconds, so each looks at much. Exits with 77 where no guest boots."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOFTROCE = HERE.parent.parent / "tools" / "softroce"
LIMIT_S = 120
MBIT = 30  # slow: an emulated processor then keeps up
MOST_SHARE = 1.05  # of the rate, in payload; the first 100 kB pass at once


def softroce(*words, **variables):
    return subprocess.run([SOFTROCE, *map(str, words)], capture_output=True, text=True, timeout=LIMIT_S, check=False,
                          env={**os.environ, **variables})


def start(*words):
    return subprocess.Popen([SOFTROCE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def machines_of(pid):
    """Processes that run on the folder of that run."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            if f"/softroce.{pid}.".encode() in (each / "cmdline").read_bytes():
                found.append(each.name)
        except OSError:  # ended meanwhile
            pass
    return found


def left_of(pid):
    return [*machines_of(pid), *Path("/var/tmp").glob(f"softroce.{pid}.*")]


class ClusterTest(unittest.TestCase):
    """One run whose COMMAND looks at everything."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        os.chdir(cls.folder.name)
        cls.addClassCleanup(os.chdir, HERE)
        cls.done = softroce("-v", "--rates", f"0,{MBIT}", "-o", "kept", HERE / "programs", 60, HERE / "guest.py",
                            WEFT_LOG="text with 'quotes' and\nlines", OTHER="is not passed on")
        if cls.done.returncode == 77:
            sys.exit(print(cls.done.stderr, file=sys.stderr) or 77)
        if cls.done.returncode != 0:
            raise RuntimeError(cls.done.stderr + cls.done.stdout)
        print(cls.done.stderr.splitlines()[0])  # how long the boot took
        cls.found = json.loads(cls.done.stdout.splitlines()[0])

    def test_output_and_error_output_are_apart(self):
        self.assertRegex(self.done.stdout, r"(?s)^\{[^\n]*\n== guest\.py: passed, \d+ s\n$")
        self.assertRegex(self.done.stderr, r"^softroce: booted in [\d.]+ s\nthis is the error output\n$")

    def test_environment_and_folder(self):
        self.assertEqual(self.found["environment"], {
            "SOFTROCE_HOSTS": "2", "SOFTROCE_RAILS": "2", "SOFTROCE_OUT": "/run/softroce/out",
            "WEFT_LOG": "text with 'quotes' and\nlines"})
        self.assertEqual(self.found["folder"], self.folder.name)
        self.assertEqual(self.found["memlock"], resource.RLIM_INFINITY)

    def test_only_what_is_in_softroce_out_is_kept(self):
        self.assertEqual(os.listdir(), ["kept"])
        self.assertEqual(Path("kept/result").read_text(), "kept")

    def test_every_port_is_up_and_takes_4096_bytes(self):
        self.assertEqual(self.found["ports"], {f"rx_h{host}r{rail}": {"state": "PORT_ACTIVE", "active_mtu": "4096"}
                                               for host in range(2) for rail in range(2)})

    def test_a_pulled_cable_carries_nothing(self):
        arrived = [(other, pulled) for other, pulled, _ in self.found["cable"]]
        self.assertEqual(arrived, [("before", "before"), ("while", ""), ("after", "after")])
        for (_, _, states), expected in zip(self.found["cable"], ("PORT_ACTIVE", "PORT_DOWN", "PORT_ACTIVE")):
            self.assertEqual(states, {"rx_h0r0": "PORT_ACTIVE", "rx_h0r1": "PORT_ACTIVE", "rx_h1r0": expected,
                                      "rx_h1r1": "PORT_ACTIVE"})

    def test_what_hosts_send_crosses_the_switch(self):
        self.assertGreaterEqual(self.found["crossed"], len("beforewhileafter"))

    def test_rate_holds(self):
        """The bytes never come faster. How near they come to the rate is the processor's matter: packets had to wait."""
        if self.found["mbit"] is None:
            self.skipTest("needs ib_write_bw (package perftest)")
        self.assertLessEqual(self.found["mbit"], MOST_SHARE * MBIT)
        rate, waited = self.found["shaped"]
        self.assertEqual(rate, MBIT)
        self.assertGreater(waited, 0)


class HarnessTest(unittest.TestCase):
    def await_event(self, happened):
        end = time.monotonic() + LIMIT_S
        while not happened():
            self.assertLess(time.monotonic(), end)

    def test_ranks_of_every_host(self):
        script = ("echo $SOFTROCE_HOST $WEFT_HOST $WEFT_RANK of $WEFT_SIZE, $WEFT_LOCAL_RANK of $WEFT_LOCAL_SIZE,"
                  " $WEFT_RENDEZVOUS $WEFT_INTERFACES $WEFT_LOCAL_CORES $WEFT_JOB_KEY; ulimit -l >&2;"
                  f" [ $WEFT_RANK != 3 ] || {HERE}/guest.py register; [ $WEFT_RANK != 2 ] || kill -9 $$")
        done = softroce("-p", 2, "--memlock", 64, "--each", "sh", "-c", script)
        self.assertEqual(done.returncode, 137, done.stderr)
        lines = sorted(done.stdout.splitlines())
        keys = {line.split()[-1] for line in lines if " of 4" in line}
        self.assertEqual(len(keys), 1, lines)
        self.assertRegex(keys.pop(), r"^[0-9a-f]{32}$")
        self.assertEqual([re.sub(r" [0-9a-f]{32}$", "", line) for line in lines], sorted([
            f"[host{host} {local}] {host} host{host} {host * 2 + local} of 4, {local} of 2, 127.0.0.1:29500"
            f" rx_h{host}r0,rx_h{host}r1 1" for host in range(2) for local in range(2)] +
            ["[host1 1] [true, false]"]))  # 16 KiB can be registered, 1 MiB cannot
        self.assertEqual(sorted(done.stderr.splitlines()),
                         [f"[host{host} {local}] 64" for host in range(2) for local in range(2)])

    def test_a_guest_that_dies_has_its_last_words_printed(self):
        done = softroce("sh", "-c", "echo said before; echo c > /proc/sysrq-trigger")
        self.assertEqual((done.returncode, done.stdout), (1, "said before\n"))
        self.assertIn("softroce: the guest died while COMMAND ran", done.stderr)
        self.assertIn("Kernel panic - not syncing: sysrq triggered crash", done.stderr)

    def test_out_of_time(self):
        run = start("-t", "1", "true")
        _, said = run.communicate(timeout=LIMIT_S)
        self.assertEqual(run.returncode, 124, said)
        self.assertIn("softroce: out of time: the guest still booted after 1 s", said)
        self.assertEqual(left_of(run.pid), [])

    def test_a_killed_run_takes_its_guest_along_and_the_next_removes_its_folder_and_a_signal_leaves_nothing(self):
        killed = start("true")
        self.await_event(lambda: [*Path("/var/tmp").glob(f"softroce.{killed.pid}.*/console")])
        killed.kill()
        killed.communicate(timeout=LIMIT_S)
        self.await_event(lambda: not machines_of(killed.pid))
        self.assertEqual(len(left_of(killed.pid)), 1)

        run = start("sh", "-c", "echo ready; exec tail -f /dev/null")
        self.assertEqual(run.stdout.readline(), "ready\n")  # passed on at once
        self.assertEqual(left_of(killed.pid), [])
        self.assertEqual(len(left_of(run.pid)), 2)
        run.send_signal(signal.SIGTERM)
        _, said = run.communicate(timeout=LIMIT_S)
        self.assertEqual(run.returncode, 128 + signal.SIGTERM)
        self.assertRegex(said, rf"softroce: removing /var/tmp/softroce\.{killed.pid}\.\w+, left by a run that was killed")
        self.assertEqual(left_of(run.pid), [])

    def test_programs_are_bounded_and_all_run(self):
        with tempfile.TemporaryDirectory() as folder:
            hangs = Path(folder, "hangs")
            hangs.write_text("#!/bin/sh\nexec tail -f /dev/null\n")
            hangs.chmod(0o755)
            done = subprocess.run([HERE / "programs", "1", "sh", "-c", "exit 3", "--", hangs, "--", "true"], capture_output=True, text=True,
                                  timeout=LIMIT_S, check=False)
        self.assertEqual(done.returncode, 1)
        for text in ("== sh: failed: exit 3,", "== hangs: failed: out of time", "== true: passed,"):
            self.assertIn(text, done.stdout)

    def test_wrong_arguments_are_refused(self):
        for words, text in ((["-n", 0, "true"], "--hosts 0: expected 1 to 32"), ([], "COMMAND is missing"),
                            (["-r", 9, "true"], "--rails 9: expected 1 to 8"),
                            (["-t", "soon", "true"], "invalid int value: 'soon'"),
                            (["-o", __file__, "true"], "harness_test.py: is not a folder"),
                            (["-m", 1, "true"], "--memory 1: expected 512 to"),
                            (["--rates", "1,2,3", "true"], "--rates 1,2,3: expected Mbit/s")):
            done = softroce(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(text, done.stderr)

    def test_without_a_kernel_it_skips_and_says_so(self):
        done = softroce("true", SOFTROCE_CACHE="/proc/nowhere")
        self.assertEqual(done.returncode, 77)
        self.assertRegex(done.stderr, r"^softroce: skipped: no kernel in /proc/nowhere: .*\n$")


if __name__ == "__main__":
    unittest.main()
