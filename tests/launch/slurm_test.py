"""usage: slurm_test.py RANK_PROGRAM: ranks that `srun --mpi=pmix` starts find each other.

Makes a Slurm of one node for itself, in a folder of its own and on free ports, and ends it. Exits with 77 where
that is not possible."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LIMIT_S = 60
RANKS = 4
DAEMONS = ("slurmctld", "slurmd")
# Without MUNGE: everybody on this machine may submit jobs to this Slurm while the test runs, as its own user.
CONFIGURATION = """
ClusterName=weft
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus}
PartitionName=all Nodes={host} Default=YES
"""


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Slurm:
    """A running Slurm; its logs are told when something fails."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="weft-slurm-"))
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        controller, node = free_ports(2)
        configuration = self.folder / "slurm.conf"
        configuration.write_text(CONFIGURATION.format(host=socket.gethostname().split(".")[0], folder=self.folder,
                                                      controller=controller, node=node, cpus=os.cpu_count()))
        # Ranks of a test that was ended may still use the folders that PMIx makes by default.
        (self.folder / "mpi.conf").write_text(f"PMIxCliTmpDirBase={self.folder}\n")
        self.environment = dict(os.environ, SLURM_CONF=str(configuration), ASAN_OPTIONS="detect_leaks=0")
        self.running = []
        for daemon in DAEMONS:
            with open(self.folder / f"{daemon}.log", "w", encoding="utf-8") as log:
                self.running.append(subprocess.Popen([daemon, "-D", "-f", str(configuration)], env=self.environment,
                                                     stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def srun(self, *words):
        """Waits for the node to come up, as srun does for any node."""
        return subprocess.run(["srun", *map(str, words)], env=self.environment, capture_output=True, text=True,
                              timeout=LIMIT_S, check=False)

    def logs(self):
        return "".join(f"\n== {daemon}\n" + (self.folder / f"{daemon}.log").read_text() for daemon in DAEMONS)

    def end(self):
        for process in reversed(self.running):
            process.terminate()
        for process in self.running:
            try:
                process.wait(LIMIT_S / 4)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class SlurmTest(unittest.TestCase):
    def setUp(self):
        self.slurm = Slurm()
        self.addCleanup(self.slurm.end)

    def srun(self, *words):
        return self.slurm.srun("--mpi=pmix", "--overcommit", "--kill-on-bad-exit=1", "-n", RANKS, *words)

    def test_ranks_find_each_other_or_end_together(self):
        done = self.srun(PROGRAM)
        self.assertEqual(done.returncode, 0, done.stderr + self.slurm.logs())
        self.assertEqual(sorted(done.stdout.splitlines()),
                         [f"rank {rank} of {RANKS}: all right" for rank in range(RANKS)], done.stderr)
        done = self.srun("sh", "-c", f"[ $SLURM_PROCID != 1 ] || exit 3; exec {PROGRAM}")
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("all right", done.stdout)


def reason_to_skip():
    missing = [name for name in (*DAEMONS, "srun") if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} not here"
    if os.geteuid() != 0:
        return "needs root"
    return None


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    if (why := reason_to_skip()) is not None:
        print(f"skipped: {why}")
        sys.exit(77)
    unittest.main()
