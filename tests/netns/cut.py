"""usage: tools/netns -n 2 -r 2 cut.py: sees with datagrams that a cut rail carries nothing, that the other one goes
on, that the mended one carries again, and that packets are lost while they should be. Exits with 1, and says why, if not."""

import ctypes
import os
import socket
import sys

PORT = 7000
LIMIT_S = 10
SOME = 100  # datagrams
LIBC = ctypes.CDLL(None, use_errno=True)


def socket_of(name):
    """A datagram socket of that namespace; it stays there while this process goes back."""
    with open("/proc/self/ns/net", "rb") as home, open(f"/run/netns/{name}", "rb") as there:
        for namespace in (there, home):
            if LIBC.setns(namespace.fileno(), 0) != 0:
                raise OSError(ctypes.get_errno(), f"setns {name}")
            if namespace is there:
                made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.settimeout(LIMIT_S)
    return made


class Rail:
    """From host 0 to host 1."""

    def __init__(self, number, names):
        self.sender, self.receiver, self.address = socket_of(names[0]), socket_of(names[1]), (f"10.{number}.0.2", PORT)
        self.receiver.bind(self.address)

    def send(self, data):
        try:
            self.sender.sendto(data, self.address)
        except OSError:  # a cut rail may say so, or lose it
            pass

    def passes(self, data):
        self.send(data)
        return self.receiver.recv(64) == data

    def received(self):
        """How many are there."""
        count = 0
        while not self.is_empty():
            count += 1
        return count

    def is_empty(self):
        self.receiver.setblocking(False)
        try:
            return not self.receiver.recv(64)
        except BlockingIOError:
            return True
        finally:
            self.receiver.settimeout(LIMIT_S)


def main():
    control = socket.socket(socket.AF_UNIX)
    control.connect(os.environ["NETNS_CONTROL"])

    def ask(command):
        control.sendall(command.encode() + b"\n")
        return control.recv(256).decode().strip()

    def expect(condition, text):
        if not condition:
            sys.exit(text)

    cut, other = (Rail(number, os.environ["NETNS_NAMES"].split()) for number in range(2))
    expect(cut.passes(b"before") and other.passes(b"before"), "a rail carries nothing before the cut")
    expect(ask("down 1 0") == "ok", "down 1 0 was refused")
    cut.send(b"while cut")
    expect(other.passes(b"while cut"), "the other rail is cut too")
    expect(cut.is_empty(), "a cut rail carries")
    expect(ask("up 1 0") == "ok", "up 1 0 was refused")
    expect(cut.passes(b"after"), "the mended rail carries something else")
    expect(ask("flap 1 0 3") == "ok" and cut.passes(b"flapped"), "a rail that flapped carries nothing")
    expect(ask("loss 1 0 100") == "ok", "loss 1 0 100 was refused")
    cut.send(b"lost")
    expect(other.passes(b"meanwhile") and cut.is_empty(), "a rail that loses all carries")
    expect(ask("loss 1 0 0") == "ok" and cut.passes(b"found"), "a rail that loses nothing more carries nothing")
    expect(ask("loss 1 0 50") == "ok", "loss 1 0 50 was refused")
    for _ in range(SOME):
        cut.send(b"some")
    expect(0 < cut.received() < SOME, "a rail that loses a half lost all or nothing")
    expect(ask("loss 1 0 0") == "ok", "loss 1 0 0 was refused")
    expect(ask("rate 1 0 100") == "ok" and cut.passes(b"slow"), "a slow rail carries nothing")
    expect(ask("rate 1 0 0") == "ok" and cut.passes(b"fast"), "a fast rail carries nothing")
    for command in ("down 2 0", "down 0 2", "down -1 0", "rate 0 0 fast", "flap 0 0 0", "loss 0 0 101", "loss 0 0 -1", "hello"):
        expect(ask(command).startswith("error: "), f"{command} was not refused")


if __name__ == "__main__":
    main()
