"""usage: tools/netns … --each traffic.py MEGABYTES RAIL…: what plain TCP gets.

Every host sends so much to the next host on each of the rails, all at the same time, and prints one JSON line
per rail that it receives on: host, rail, Mbit/s (payload, from the first byte to the last), and the share of
one core that this process used meanwhile for all its rails."""

import json
import os
import socket
import sys
import threading
import time

PORT = 7000
CHUNK = bytes(1 << 20)
WINDOW = 64 << 10  # of bytes on their way (the kernel doubles it): less than a rail's queue, so nothing is lost
LIMIT_S = 60


def connect(address):
    """The receiver may not have been started yet: asks again until it is there."""
    end = time.monotonic() + LIMIT_S
    while True:
        try:
            return socket.create_connection(address, timeout=LIMIT_S)
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise


def send(address, megabytes):
    with connect(address) as stream:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, WINDOW)
        for _ in range(megabytes):
            stream.sendall(CHUNK)


def receive(listener, megabytes, results, rail):
    stream, _ = listener.accept()
    stream.settimeout(LIMIT_S)
    buffer, left = bytearray(1 << 20), megabytes << 20
    left -= stream.recv_into(buffer)
    begin, timed = time.monotonic(), left
    while left > 0:
        count = stream.recv_into(buffer)
        if count == 0:
            return
        left -= count
    results[rail] = timed * 8 / (time.monotonic() - begin) / 1e6


def main():
    megabytes, rails = int(sys.argv[1]), [int(rail) for rail in sys.argv[2:]]
    host, hosts = int(os.environ["NETNS_HOST"]), int(os.environ["NETNS_HOSTS"])
    results, threads = {}, []
    for rail in rails:
        listener = socket.create_server((f"10.{rail}.0.{host + 1}", PORT))
        listener.settimeout(LIMIT_S)
        threads.append(threading.Thread(target=receive, args=(listener, megabytes, results, rail)))
        threads.append(threading.Thread(target=send, args=((f"10.{rail}.0.{(host + 1) % hosts + 1}", PORT), megabytes)))
    begin, cpu = time.monotonic(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    share = (time.process_time() - cpu) / (time.monotonic() - begin)
    for rail in rails:
        print(json.dumps({"host": host, "rail": rail, "mbit": round(results[rail], 1), "core_share": round(share, 3)}))


if __name__ == "__main__":
    main()
