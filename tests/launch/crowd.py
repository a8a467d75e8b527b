"""usage: crowd.py COMMAND…: runs the command while 100 silent callers, and 2,500 others one after the other, are at the PMIx
server that the environment names."""

import os
import re
import socket
import sys

uri = next(value for name, value in os.environ.items() if name.startswith("PMIX_SERVER_URI"))
where = re.search(r"tcp4://([\d.]+):(\d+)", uri)
address = (where[1], int(where[2]))
silent = [socket.create_connection(address) for _ in range(100)]
for k in range(2500):
    with socket.create_connection(address) as each:
        each.sendall([b"", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64][k % 3])
sys.exit(os.spawnv(os.P_WAIT, sys.argv[1], sys.argv[1:]))
