"""A job on two hosts with two rails under `weft top --prometheus`, a real Prometheus that scrapes it, and the queries of the
dashboard examples/grafana.json: each panel has data.

usage: tools/netns -n 2 -r 2 --rates 400 prometheus_test.py TOP_RANK WEFT. Skips (77) where there is no prometheus."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 40
SKIP = 77
PORT = 29700  # of the rendezvous, on rail 0 of host 0
NAMES = os.environ.get("NETNS_NAMES", "").split()
RANK = WEFT = ""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def fetched(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


class PrometheusTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.end = time.monotonic() + LIMIT_S

    def start(self, *words, **options):
        child = subprocess.Popen([str(word) for word in words], text=True, **options)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child

    def until(self, what, ask):
        """What `ask` returns, once it returns something."""
        while time.monotonic() < self.end:
            try:
                if found := ask():
                    return found
            except OSError:
                pass
            threading.Event().wait(0.1)
        self.fail(f"{what}: not within {LIMIT_S} s")

    def start_ranks(self):
        for host, name in enumerate(NAMES):
            environment = dict(os.environ, WEFT_RANK=str(host), WEFT_SIZE="2", WEFT_HOST=f"host{host}", WEFT_LOCAL_RANK="0",
                               WEFT_LOCAL_SIZE="1", WEFT_LOCAL_CORES="1", WEFT_RENDEZVOUS=f"10.0.0.1:{PORT}",
                               WEFT_JOB_KEY="key of prometheus_test", WEFT_LIVE=str(self.folder / "live"))
            self.start("ip", "netns", "exec", name, RANK, self.folder / "stop", 4_000_000, 5, env=environment)

    def start_top(self):
        output = self.folder / "top"
        with open(output, "w", encoding="utf-8") as file:
            self.start(WEFT, "top", "--live", self.folder / "live", "--interval", "0.5", "--prometheus", "127.0.0.1:0",
                       stdout=file)
        line = self.until("the address of weft top", lambda: output.read_text(encoding="utf-8").partition("\n")[0])
        self.assertRegex(line, r"^metrics at http://127\.0\.0\.1:\d+/metrics$")
        return line.split("//")[1].split("/")[0]

    def start_prometheus(self, target):
        address = f"127.0.0.1:{free_port()}"
        config = self.folder / "prometheus.yml"
        config.write_text(json.dumps({"global": {"scrape_interval": "500ms", "scrape_timeout": "500ms"},
                                      "scrape_configs": [{"job_name": "weft", "static_configs": [{"targets": [target]}]}]}),
                          encoding="utf-8")
        self.start("prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.folder / 'data'}",
                   f"--web.listen-address={address}", stderr=subprocess.DEVNULL)
        return address

    def test_each_panel_of_the_dashboard_has_data(self):
        self.start_ranks()
        target = self.start_top()
        prometheus = self.start_prometheus(target)
        dashboard = json.loads((ROOT / "examples" / "grafana.json").read_text(encoding="utf-8"))
        expressions = [each["expr"] for panel in dashboard["panels"] for each in panel["targets"]]
        self.assertGreater(len(expressions), 5)
        for expression in expressions:
            def data(expression=expression):
                url = f"http://{prometheus}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
                return json.loads(fetched(url))["data"]["result"]
            self.until(expression, data)
        text = fetched(f"http://{target}/metrics")
        heads = [line for line in text.splitlines() if line.startswith("# TYPE")]
        self.assertEqual(len(heads), len(set(heads)))
        for rank in range(2):
            self.assertRegex(text, rf'weft_operations_total{{[^}}]*rank="{rank}"')


if __name__ == "__main__":
    RANK, WEFT = sys.argv.pop(1), sys.argv.pop(1)
    if shutil.which("prometheus") is None:
        print("skipped: there is no prometheus (tools/deps --peers)")
        sys.exit(SKIP)
    unittest.main()
