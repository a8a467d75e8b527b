"""Runs on the hosts of tools/netns and tools/softroce."""

import json
import shlex
import subprocess
import sys

from figures.runs import ROOT, RUN_LIMIT_S

GUEST_RUN_LIMIT_S = 500  # in an emulated machine; six times 64 MiB at GUEST_MBIT, longer on slower links
GUEST_MBIT = 20


def cluster_median_s(runs, cluster, hosts, rates, *words):
    """The median of one operation in seconds, one rank on each host of a cluster that `cluster`, a tool, makes; the rates
    are those of its rails, in Mbit/s."""
    shape = ["-n", str(hosts), "-r", str(len(rates)), "--rates", ",".join(map(str, rates)), "--each"]
    command = [str(ROOT / "tools" / cluster), *shape, str(runs.weft), "perf", *words, "--transport", "automatic", "--ranks",
               str(hosts), "--json", "-"]
    print(f"# {' '.join(command)}", file=sys.stderr, flush=True)
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    (row,) = [json.loads(line[line.index("{"):]) for line in done.stdout.splitlines() if "{" in line]
    runs.keep(f"tools/{cluster} {' '.join(shape)} weft perf {' '.join(words)}", row)
    return row["p50_us"] / 1e6


def cluster_rows(runs, cluster, hosts, rates, *words, ranks=1):
    """What `weft WORDS` prints as JSON on the first host of a cluster that `cluster`, a tool, makes."""
    shape = ["-n", str(hosts), "-r", str(len(rates)), "-p", str(ranks), "--rates", ",".join(map(str, rates)), "--each"]
    limit_s = int(GUEST_RUN_LIMIT_S * max(1, GUEST_MBIT / min(rates))) if cluster == "softroce" else RUN_LIMIT_S
    if cluster == "softroce":
        shape[:0] = ["-t", str(limit_s)]
    command = [str(ROOT / "tools" / cluster), *shape, str(runs.weft), *words, "--json", "-"]
    print(f"# {shlex.join(command)}", file=sys.stderr, flush=True)
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s + 10, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{shlex.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return documents("".join(line.partition("] ")[2] for line in done.stdout.splitlines() if line.startswith("[host0")))


def documents(text):
    """The JSON objects of a text, one after the other."""
    decoder, rows = json.JSONDecoder(), []
    while (begin := text.find("{")) >= 0:
        row, end = decoder.raw_decode(text[begin:])
        rows.append(row)
        text = text[begin + end:]
    return rows


def write_cluster(path, hosts, rates_gbit, latency_us, ranks_each=1):
    """A cluster file of equal machines on rails of these rates."""
    nics = path.with_suffix(".nics.toml")
    nics.write_text("".join(f'[[nic]]\nname = "rail{r}"\n' for r in range(len(rates_gbit))),
                    encoding="utf-8")
    rails = "".join(f'[[rail]]\nname = "{r}"\nnics = ["rail{r}"]\ngbit_per_s = {rate}\nlatency_us = {latency_us}\n'
                    for r, rate in enumerate(rates_gbit))
    path.write_text(f'[[machine]]\nname = "host"\ncount = {hosts}\nlike = "synthetic:core:2 pu:1"\n'
                    f'correct = "{nics.name}"\nranks = {ranks_each}\n{rails}', encoding="utf-8")
