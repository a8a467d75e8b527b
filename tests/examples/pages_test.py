"""What README.md, the pages of docs/ and the help of commands show is tried: samples of C++ compile, files are accepted, and
the commands that plan end well and print what the page has below them.

usage: pages_test.py --weft PROGRAM --cxx COMPILER"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# A block of commands, and the block of what they print if that follows.
SHOWN = re.compile(r"^```sh\n(?P<commands>.*?)^```$(\n\n```\n(?P<output>.*?)^```$)?", re.DOTALL | re.MULTILINE)
SECONDS = 60  # bound of each command
OPTIONS = argparse.Namespace()

# Commands that need nothing but files. What follows a job or the network is tested elsewhere.
PLANNING = re.compile(r"^weft (topo|machine|map|predict|graph|config|devices|timeline chakra)\b")

# What samples take from the program around them.
AROUND = r"""
#include <weft/macros.h>
#include <weft/weft.h>

#include <cstdio>
#include <span>
#include <string>
#include <vector>

struct Model {
  void compute_gradient(float* z);  // kept until descend()
  void compute_gradient(float* at, float* slope);
  void descend(float* x);
};
struct Layer {
  std::string name;
  float* x;
  std::size_t n;
};
void compute(float* x);
void launch_kernel(float* y, void* stream);
"""
PARAMETERS = ("weft::Context& context, weft::Window& window, Model& model, float* x, float* y, float* copy, std::size_t n, "
              "int steps, int out_degree, const std::vector<weft::NeighborWeight>& shares, void* stream")

# Two interfaces of a machine without devices, for the machine that cluster.md names.
TWO_NICS = "".join(f'[[nic]]\nname = "mlx5_{k}"\nmbit_per_s = 100_000\n' for k in (0, 1))

# A step as Chakra has it in JSON: a computation, and an allreduce of what it has made.
CHAKRA_STEP = json.dumps({"workload_graph": [
    {"Id": 1, "Name": "backward", "NodeType": 4, "runtime": 900, "data_deps": [], "is_cpu_op": False},
    {"Id": 2, "Name": "gradients", "NodeType": 7, "data_deps": [1], "comm_type": 0, "comm_size": 4194304, "pg_name": "0"}]})
RANKS_OF_CLUSTER = 32  # of cluster.toml
RANKS_OF_JOB = 4


def timeline_of(rank, ranks):
    """As WEFT_TRACE has it: an allreduce of 4 MiB."""
    span = {"pid": rank, "tid": 1, "name": "allreduce ring", "cat": "operation", "id2": {"local": "0x1"}}
    args = {"operation": 1, "bytes": 4194304, "result": "ok"}
    return json.dumps({"traceEvents": [span | {"ph": "b", "ts": 10, "args": args}, span | {"ph": "e", "ts": 900}],
                       "otherData": {"format": "weft 1", "machine": "m", "day_us": 0, "context": "job", "rank": rank,
                                     "ranks": list(range(ranks))}})


def blocks(page):
    """(line, language, text) of each fenced block of a page."""
    text = page.read_text(encoding="utf-8")
    return [(text.count("\n", 0, found.start()) + 2, *found.groups()) for found in FENCE.finditer(text)]


def commands(text):
    """The commands of a block that plan, without their comments. Help has comments behind two spaces."""
    lines = text.replace("\\\n", " ").splitlines()
    lines = [re.sub(r"\s+#.*|(?<=\S)\s{2,}[^-\s].*", "", line.strip()).replace("build/bin/weft", "weft") for line in lines]
    return [line for line in lines if PLANNING.match(line)]


def matches(row, line):
    """Whether a row of a page is this line of an output. `…` stands for anything."""
    return re.fullmatch(".*".join(map(re.escape, row.strip().split("…"))), line.strip())


class Pages(unittest.TestCase):
    def test_samples_compile(self):
        source = [AROUND]
        for page in PAGES:
            for number, (line, language, text) in enumerate(blocks(page)):
                if language != "cpp":
                    continue
                lines = [row if not row.startswith("#include") else "" for row in text.splitlines()]
                is_function = text.lstrip().startswith(("#include", "weft::Status "))
                before, after = ("", "") if is_function else (f"weft::Status sample({PARAMETERS}) {{", "return {}; }")
                source += [f"namespace {page.stem.lower()}_{number} {{ {before}", f'#line {line} "{page.name}"', *lines,
                           f"{after} }}"]
        self.assertGreater(len(source), 40)
        flags = ["-std=c++20", "-Wall", "-Wno-unused-variable", "-Werror", "-fsyntax-only", "-I", ROOT / "include"]
        done = subprocess.run(
            [OPTIONS.cxx, *flags, "-x", "c++", "-"], input="\n".join(source) + "\n", capture_output=True, text=True, timeout=SECONDS, check=False)
        self.assertEqual(done.stderr, "")

    def test_commands_print_what_the_pages_have(self):
        with tempfile.TemporaryDirectory(prefix="weft-pages-") as folder:
            self.make_files(Path(folder))
            tried = [self.try_commands(page, folder) for page in PAGES]
        self.assertGreater(sum(tried), 20)

    def try_commands(self, page, folder):
        """Runs the commands of a page, and compares the output that follows a block of them. Returns how many they are."""
        tried = 0
        text = page.read_text(encoding="utf-8")
        for found in SHOWN.finditer(text):
            lines = []
            with self.subTest(page=page.name, line=text.count("\n", 0, found.start()) + 1):
                for command in commands(found["commands"]):
                    tried += 1
                    lines += self.printed_by(command, folder).splitlines()
                missing = [row for row in (found["output"] or "").splitlines() if lines
                           and not any(matches(row, line) for line in lines)]
                self.assertEqual(missing, [])
        return tried

    def test_clusters_are_accepted(self):
        with tempfile.TemporaryDirectory(prefix="weft-pages-") as folder:
            self.make_files(Path(folder))
            texts = [text for _, language, text in blocks(ROOT / "docs" / "cluster.md") if language == "toml"]
            for text, graph in zip(texts, ("ring", "bcube:a=4,b=2"), strict=True):
                (Path(folder) / "cluster.toml").write_text(text, encoding="utf-8")
                self.printed_by(f"weft map --cluster cluster.toml --graph {graph}", folder)

    def test_graphs_that_headers_name_can_be_made(self):
        with tempfile.TemporaryDirectory(prefix="weft-pages-") as folder:
            known = re.findall(r"^  ([a-z_]+) ", self.printed_by("weft graph --help", folder), re.MULTILINE)
            specs = {spec for header in (ROOT / "include").rglob("*.h")
                     for spec in re.findall(r'"(\w+:[\w:=,]+)"', header.read_text(encoding="utf-8"))
                     if spec.split(":")[0] in known and "GRAPH" not in spec}
            self.assertGreater(len(specs), 5)
            for spec in sorted(specs):
                ranks = 64 if spec.startswith("torus") else 16
                self.printed_by(f"weft graph {spec} {ranks}", folder)

    def test_each_command_has_examples_that_run(self):
        with tempfile.TemporaryDirectory(prefix="weft-pages-") as folder:
            self.make_files(Path(folder))
            names = re.findall(r"^  ([a-z]+) ", self.printed_by("weft --help", folder).split("Subcommands:")[1], re.MULTILINE)
            self.assertGreater(len(names), 9)
            for name in names:
                with self.subTest(command=name):
                    _, _, examples = self.printed_by(f"weft {name} --help", folder).partition("Examples:\n")
                    self.assertNotEqual(examples, "")
                    for command in commands(examples):
                        self.printed_by(command, folder)

    def make_files(self, folder):
        """What pages and help name: the examples, the corrections of hardware.md, and the machines of cluster.md."""
        shutil.copytree(ROOT / "examples", folder / "examples")
        clusters, machines = folder / "examples" / "clusters", folder / "examples" / "machines"
        for name in ("cluster.toml", "c.toml"):
            text = (clusters / "four-machines.toml").read_text(encoding="utf-8")
            (folder / name).write_text(text.replace("../", "examples/"), encoding="utf-8")
        for name, like in (("dgx.xml", "8gpu-8nic.xml"), ("machine.xml", "nccl-4gpu-4nic.xml"), ("node.xml", "nccl-4gpu-4nic.xml")):
            shutil.copy(machines / like, folder / name)
        (corrections,) = [text for _, language, text in blocks(ROOT / "docs" / "hardware.md") if language == "toml"]
        for name in ("fix.toml", "rates.toml", "devices.toml"):
            (folder / name).write_text(corrections, encoding="utf-8")
        (folder / "two.toml").write_text(TWO_NICS, encoding="utf-8")
        for name in ("step.et", *(f"step.{rank}.et" for rank in range(RANKS_OF_CLUSTER))):
            (folder / name).write_text(CHAKRA_STEP, encoding="utf-8")
        for rank in range(RANKS_OF_JOB):
            (folder / f"trace-{rank}.json").write_text(timeline_of(rank, RANKS_OF_JOB), encoding="utf-8")
        self.printed_by('weft topo --from "synthetic:core:2 pu:1" --correct two.toml --xml > two-nics.xml', folder)

    def printed_by(self, command, folder):
        program = command.replace("weft", f"'{OPTIONS.weft}'", 1).replace("--place", "--place --swaps 1000")
        done = subprocess.run(["sh", "-c", program], cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}{done.stderr}")
        return done.stdout


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--weft", "--cxx"):
        parser.add_argument(option, required=True)
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
