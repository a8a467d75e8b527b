#!/usr/bin/env python3
"""What harness_test.py asks a guest of tools/softroce: prints what it finds as one line of JSON.

  guest.py           everything about the ports: their state, cables, rates, and what is kept of what is written
  guest.py register  whether 16 KiB and 1 MiB can be registered with an RDMA device"""

import ctypes
import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

LIMIT_S = 20
PORT = 7000


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: exit {done.returncode}\n{done.stderr}{done.stdout}")
    return done.stdout


def await_event(happened, what):
    """The kernel tells nobody, so it is asked until it has happened."""
    end = time.monotonic() + LIMIT_S
    while not happened():
        if time.monotonic() > end:
            sys.exit(f"{what}: not after {LIMIT_S} s")


def ports():
    """By device: state and MTU, as verbs show them."""
    shown = run("ibv_devinfo").split("hca_id:")[1:]
    return {each.split()[0]: {name: re.search(rf"{name}:\s+(\S+)", each).group(1) for name in ("state", "active_mtu")}
            for each in shown}


def pull(port, way):
    """Takes the switch's end down or up; the RDMA device sees it."""
    run("ip", "link", "set", f"port-{port}", way)
    state = Path(f"/sys/class/infiniband/rx_{port}/ports/1/state")
    await_event(lambda: ("ACTIVE" in state.read_text()) == (way == "up"), f"rx_{port} {way}")


class Datagrams:
    """From host 0 to host 1 on a rail."""

    def __init__(self, rail):
        self.sender, self.receiver = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
        self.sender.bind((f"10.{rail}.0.1", 0))
        self.receiver.bind((f"10.{rail}.0.2", PORT))

    def send(self, data):
        try:
            self.sender.sendto(data, self.receiver.getsockname())
        except OSError:  # a pulled cable may say so, or lose it
            pass

    def received(self, limit_s):
        self.receiver.settimeout(limit_s)
        try:
            return self.receiver.recv(64).decode()
        except OSError:
            return ""


def crossed(rail):
    """Bytes that the switch has taken from host 0."""
    return int(Path(f"/sys/class/net/port-h0r{rail}/statistics/rx_bytes").read_text())


def cable():
    """What arrives before, while and after host 1's cable on rail 0 is pulled; rail 1 stays."""
    pulled, other, before = Datagrams(0), Datagrams(1), crossed(0)
    found = []
    for way, data in (("up", b"before"), ("down", b"while"), ("up", b"after")):
        pull("h1r0", way)
        for each in (pulled, other):
            each.send(data)
        found.append([other.received(LIMIT_S), pulled.received(LIMIT_S if way == "up" else 0.2),
                      {name: port["state"] for name, port in ports().items()}])
    return found, crossed(0) - before


def write_mbit(rail, port):
    """Payload per second of RDMA writes from host 0 to host 1, about 6 MB. An acknowledgement may take a second (-u 18):
    with perftest's 67 ms it gives up where other guests have the cores."""
    words = ["-x", "1", "-p", str(port), "-u", "18", "-s", "65536", "-n", "100", "-m", "4096", "--report_gbits"]
    with subprocess.Popen(["ib_write_bw", "-d", f"rx_h1r{rail}", *words], stdout=subprocess.DEVNULL) as server:
        listens = re.compile(rf":{port:04X} \S+ 0A ")
        await_event(lambda: listens.search(Path("/proc/net/tcp").read_text()) or os.path.exists("/proc/net/tcp6") and
                    listens.search(Path("/proc/net/tcp6").read_text()), "the server of ib_write_bw")
        shown = run("ib_write_bw", "-d", f"rx_h0r{rail}", *words, "127.0.0.1")
        server.wait(LIMIT_S)
    return float(re.search(r"^ 65536\s+\d+\s+\S+\s+(\S+)", shown, re.MULTILINE).group(1)) * 1000


def shaped(rail):
    """The rate in Mbit/s that host 0's port sends with, and how many packets had to wait for it."""
    shown = run("tc", "-s", "qdisc", "show", "dev", f"h0r{rail}")
    rate, waited = re.search(r"\brate (\d+)Mbit\b.*\boverlimits (\d+)", shown, re.DOTALL).groups()
    return int(rate), int(waited)


def register(size):
    """Whether the first RDMA device takes a region of so many bytes."""
    verbs = ctypes.CDLL("libibverbs.so.1")
    for name in ("ibv_get_device_list", "ibv_open_device", "ibv_alloc_pd", "ibv_reg_mr"):
        getattr(verbs, name).restype = ctypes.c_void_p
    devices = ctypes.cast(ctypes.c_void_p(verbs.ibv_get_device_list(None)), ctypes.POINTER(ctypes.c_void_p))
    domain = ctypes.c_void_p(verbs.ibv_alloc_pd(ctypes.c_void_p(verbs.ibv_open_device(ctypes.c_void_p(devices[0])))))
    memory = ctypes.create_string_buffer(size)
    return bool(verbs.ibv_reg_mr(domain, memory, ctypes.c_size_t(size), 1))


def main():
    if sys.argv[1:] == ["register"]:
        return print(json.dumps([register(size) for size in (16 << 10, 1 << 20)]))
    print("this is the error output", file=sys.stderr)
    Path("left-by-the-guest").write_text("in memory")
    Path(os.environ["SOFTROCE_OUT"], "result").write_text("kept")
    arrived, bytes_crossed = cable()
    passed_on = {name: value for name, value in os.environ.items() if name.startswith(("SOFTROCE", "WEFT", "OTHER"))}
    return print(json.dumps({
        "environment": passed_on,
        "folder": os.getcwd(), "memlock": resource.getrlimit(resource.RLIMIT_MEMLOCK)[0], "ports": ports(),
        "cable": arrived, "crossed": bytes_crossed,
        "mbit": write_mbit(1, 19000) if shutil.which("ib_write_bw") else None, "shaped": shaped(1)}))


if __name__ == "__main__":
    main()
