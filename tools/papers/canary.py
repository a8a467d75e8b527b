"""Canary (Zhou et al. 2021): several interfaces, gradients in 8 bits, and exchange that nobody waits for."""

import json
import re
import shlex
import subprocess
import tempfile
from pathlib import Path

from figures import plot
from figures.clusters import cluster_rows, documents
from figures.runs import ROOT
from papers.models import DENSE, MODELS
from papers.page import number

TITLE = "Canary"
REFERENCE = ("Zhou, Li, Li, Guo, Wang, Xu: Canary: Decentralized Distributed Deep Learning Via Gradient Sketch and Partition "
             "in Multi-Interface Networks, 2021. (Not the in-network allreduce of the same name.)")

VGG19 = 4 * sum(MODELS["VGG19"])  # bytes: the paper's 532.61 MB are of 2^20 bytes
SKETCH_HEADER = 1024
SINGULAR_VALUES = 16  # of a fully connected layer
BML = "canary:bulk/topology=mesh"  # all wait for all, in 2 M a step
TO_LOSS = {"canary": ("Canary", 1.00), "canary/topology=mesh": ("Canary, a mesh", None),
           "canary/colayers=2/compression=sketch": ("Canary, sketches", None), BML: ("BML: bulk, a mesh", 1.61),
           "allreduce": ("allreduce", None), "parameter_server": ("parameter server", 2.84)}


def _cluster(folder, ports, are_joined=False):
    """A file like examples/clusters/bcube-4-2.toml with other ports, or whose rails each join all machines."""
    text = (ROOT / "examples" / "clusters" / "bcube-4-2.toml").read_text(encoding="utf-8")
    text = text.replace("../machines", str(ROOT / "examples" / "machines")).replace("count = 16", f"count = {ports * ports}")
    text = re.sub(r"machines = 4|stride = 4", lambda found: found[0].replace("4", str(ports)), text)
    if are_joined:
        text = re.sub(r"top = false\n|\[\[rail.level\]\]\n|machines = \d+\n|stride = \d+\n", "", text)
    path = Path(folder) / f"{'joined' if are_joined else 'bcube'}-{ports}-2.toml"
    path.write_text(text, encoding="utf-8")
    return path


def _predicted_us(page, path, operation, size, *words):
    (row,) = page.run("predict", "--cluster", path, "--operation", operation, "--sizes", size, *words, show=False)
    page.commands(f"weft predict --cluster {path.name} --operation {operation} --sizes {size} {shlex.join(words)}".rstrip())
    return row["us"]


def interfaces(page):
    page.section("Table 2: an allreduce over several interfaces",
                 "VGG19's gradients, 532.6 MiB, among 16 machines, predicted: BCube(4, 2) with two interfaces of 10 Gbit/s, "
                 "and one interface on one switch, as a tree without oversubscription has. One thread serves each "
                 "interface. The paper's Table 2 lists the steps of one worker: two to collect and two to spread, as in "
                 "`weft predict --algorithm bcube --plan-svg`.")
    rows = page.run("predict", "--cluster", "examples/clusters/bcube-4-2.toml", "--operation", "allreduce", "--algorithm",
                    "bcube", "--sizes", VGG19)
    single = {name: page.predict("ethernet", "allreduce", VGG19, (16,), "--algorithm", name)[16]
              for name in ("ring", "mesh")}
    ways = {"BCube(4, 2)": rows[0]["us"], **{f"one interface, {name}": us for name, us in single.items()}}
    page.table(("network", "ms", "beside the ring"),
               [(name, number(us / 1000, 0), number(single["ring"] / us)) for name, us in ways.items()])
    page.text("The BCubes of section 6.3, from 4 to 25 machines, by the same file with other numbers of ports:")
    with tempfile.TemporaryDirectory() as folder:
        found = {ports: _predicted_us(page, _cluster(folder, ports), "allreduce", VGG19, "--algorithm", "bcube")
                 for ports in (2, 3, 4, 5)}
    page.table(("network", "machines", "ms", "of the time that two interfaces need at best"),
               [(f"BCube({ports}, 2)", ports ** 2, number(us / 1000, 0),
                 f"{100 * _least_us(ports ** 2) / us:.0f}%") for ports, us in found.items()])


def _least_us(ranks):
    """Of an allreduce of VGG19's gradients over two interfaces of 10 Gbit/s."""
    return 2 * VGG19 * (1 - 1 / ranks) * 8 / 20e9 * 1e6


def exchange(page):
    page.section("Section 4.4.2: an exchange that nobody waits for",
                 "The paper exchanges pieces by the levels of a BCube, or in a mesh: scatter to the owners of shares, and gather "
                 "from them. `GradientExchange` has the mesh (`topology = mesh`), and sends each piece to all ranks by default. "
                 "Bytes that a rank sends in a step, 16 ranks with a model of 4 MiB in ten colayers, counted:")
    names = ["allreduce", BML, "canary", "canary/compression=sketch", "canary/topology=mesh",
             "canary/topology=mesh/compression=sketch"]
    found = page.strategies(names, "-n", 16, "--size", "4M", "--compute-ms", 20, "--steps", 5 if page.quick else 10,
                            "--straggler", "none")
    bml = found[BML, 0.0]["bytes_per_step"]
    page.table(("strategy", "MiB a step", "models a step", "beside BML"),
               [(f"`{name}`", number(row["bytes_per_step"] / 2**20), number(row["bytes_per_step"] / 2**22),
                 f"{round(100 * (row['bytes_per_step'] / bml - 1)):+d}%") for (name, _), row in found.items()])
    left = found["canary/topology=mesh/compression=sketch", 0.0]["bytes_per_step"]
    page.text("To all ranks a piece travels n-1 times: that is what a rank sends so that nobody has to forward it, and with 16 "
              "ranks it is far more than BML's 2 models, with the sketch too. In a mesh it is what BML sends. With the sketch an element "
              f"takes a byte, and each share a table of 1 KiB: together {100 * (1 - left / bml):.0f}% less than BML. The paper "
              "measures 56.28% less, with whatever else travelled.")
    page.text("Levels of a BCube are not offered without waiting. A piece passes them by 2b hops, b of sums and b of results, "
              "and at each hop a rank has to add up and send on. A rank that nobody waits for does so when its own iteration ends, so a "
              "gradient of BCube(4, 2) would be four iterations on its way, where a mesh needs two hops. A slow rank would hold up "
              "the pieces of all that go through it, not its own share alone. A sum of partial sums would have to carry whose "
              "gradients are in it, and how often, because the mean is divided by the ranks that contributed. What a rank has "
              "added up and not sent on would be lost with it. The paper does not say how it deals with these. Where all ranks wait for "
              "all, none of this arises: there it is the allreduce `bcube` of Table 2.")


def sketch_costs(page):
    page.section("Fig. 22b: what a gradient sketch costs",
                 "One core of this machine, GB/s of float32, and the time for a model beside that of its network transfer at 10 "
                 "Gbit/s uncompressed and as a sketch.")
    command = [str(page.weft.parent / "bench_compress"), "--benchmark_filter=(encode|decode)/sketch/1048576",
               f"--benchmark_min_time={0.02 if page.quick else 0.3}", "--benchmark_format=json"]
    page.commands("bench_compress --benchmark_filter='(encode|decode)/sketch/1048576'")
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    speed = {each["name"].split("/")[0]: each["bytes_per_second"] for each in json.loads(done.stdout)["benchmarks"]}
    page.table(("model", "MB", "encode and decode, ms", "10 Gbit/s, ms", "as a sketch, ms"),
               [(name, number(4 * sum(layers) / 1e6, 1), number(1000 * sum(4 * sum(layers) / rate for rate in speed.values()), 1),
                 number(4 * sum(layers) * 8 / 10e9 * 1000, 0), number(_sketched(layers) * 8 / 10e9 * 1000, 0))
                for name, layers in MODELS.items()])
    page.text(f"Encoding {speed['encode'] / 1e9:.1f} GB/s, decoding {speed['decode'] / 1e9:.1f} GB/s.")


def _sketched(layers):
    """Bytes of a model whose layers above 4 KiB travel as sketches, one message each."""
    return sum(count + SKETCH_HEADER if 4 * count > 4096 else 4 * count for count in layers)


def _factorized(name):
    """The same, but fully connected layers by their largest singular values where that is less."""
    saved = 0
    for rows, columns in DENSE[name]:
        factors = 2 * SINGULAR_VALUES * (rows + columns) + 4 * SINGULAR_VALUES + 32
        sketch = _sketched([rows * columns])
        saved += max(0, sketch - factors) if 2 * SINGULAR_VALUES * (rows + columns) < rows * columns else 0
    return _sketched(MODELS[name]) - saved


def _shapes(name):
    """ROWSxCOLUMNS of each layer, or its elements where it is no matrix."""
    left = list(DENSE[name])
    matrices = {len(MODELS[name]) - 2 * (len(left) - place): shape for place, shape in enumerate(left)}
    return ["{}x{}".format(*matrices[place]) if place in matrices else str(count) for place, count in enumerate(MODELS[name])]


def _sent(page, name):
    """Bytes that the first of two hosts has sent, by way."""
    command = ["tools/netns", "-n", "2", "--each", str(page.weft.parent / "bench_layers"), str(SINGULAR_VALUES), *_shapes(name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True, cwd=ROOT)
    rows = documents("".join(line.partition("] ")[2] for line in done.stdout.splitlines()))
    return {row["way"]: row["bytes"] for row in rows}


def traffic(page):
    page.section("Section 6.4: traffic",
                 "Bytes that a gradient needs, each layer above 4 KiB as a sketch of its own. The paper measures 56.28% less "
                 "than BML for VGG-19, in which other traffic counts as well. What an exchange makes of these bytes is "
                 "above: a mesh or an allreduce sends them twice, and an exchange to all ranks n-1 times. Fully connected layers have most of the bytes "
                 "(86% of VGG-19's), so the paper also shrinks them by a singular value decomposition. The last column has "
                 f"their {SINGULAR_VALUES} largest singular values (`low_rank:{SINGULAR_VALUES}`) where that is less, and the other "
                 "layers as sketches. The models are for ten classes, and MiB are what the paper calls MB: it has 532.61 for "
                 "VGG19 and 83.18 for Inception-V3.")
    page.table(("model", "MiB", "of it fully connected", "as sketches, MiB", "less", "and singular values, MiB", "less"),
               [(name, number(4 * sum(layers) / 2**20, 1),
                 f"{100 * sum(rows * columns for rows, columns in DENSE[name]) / sum(layers):.0f}%",
                 number(_sketched(layers) / 2**20, 1), f"{100 * (1 - _sketched(layers) / (4 * sum(layers))):.1f}%",
                 number(_factorized(name) / 2**20, 1), f"{100 * (1 - _factorized(name) / (4 * sum(layers))):.1f}%")
                for name, layers in MODELS.items()])
    page.text("Measured: two hosts of this machine all-reduce every layer once, and the kernel says what an interface has sent, "
              "with all headers and acknowledgements.")
    names = ["ResNet18"] if page.quick else ["AlexNet", "VGG19", "Inception-V3", "ResNet18"]
    page.commands(f"tools/netns -n 2 --each bench_layers {SINGULAR_VALUES} {shlex.join(_shapes('AlexNet')[:3])} …")
    sent = {name: _sent(page, name) for name in names}
    page.table(("model", "sent, MiB", "as sketches, MiB", "less", "and singular values, MiB", "less"),
               [(name, number(ways["none"] / 2**20, 1), number(ways["sketch"] / 2**20, 1),
                 f"{100 * (1 - ways['sketch'] / ways['none']):.1f}%", number(ways["low_rank"] / 2**20, 1),
                 f"{100 * (1 - ways['low_rank'] / ways['none']):.1f}%") for name, ways in sent.items()])
    page.text("What is left out of a layer by its singular values is not lost where error feedback keeps it "
              "([compression.md](../compression.md)).")


def use_of_links(page):
    page.section("Section 6.4: peak use of links",
                 "How much of the time the interfaces are busy while VGG19 trains on 16 machines with two interfaces of 10 Gbit/s, "
                 "if the exchange is beside a second of computing a step, predicted. The paper measures 76% for BML and 51% for "
                 "Canary. On BCube(4, 2) gradients travel as they are. A compressed allreduce takes the algorithm `split`, an alltoall "
                 "of encoded blocks and an allgather of encoded sums, which needs a way between each two ranks: there both "
                 "rails join all machines (`joined-4-2.toml`: the file of BCube(4, 2) without its levels). By the levels of a BCube a sum would be encoded anew at each; Weft refuses that "
                 "([compression.md](../compression.md#what-can-be-compressed)).")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        bcube, joined = _cluster(folder, 4), _cluster(folder, 4, are_joined=True)
        plain = _predicted_us(page, bcube, "allreduce", VGG19, "--algorithm", "bcube")
        rows.append(("BCube(4, 2), as it is", plain))
        rows.append(("joined rails, as it is", _predicted_us(page, joined, "allreduce", VGG19, "--algorithm", "split")))
        for text, size in (("joined rails, as sketches", _sketched(MODELS["VGG19"])),
                           ("joined rails, sketches and singular values", _factorized("VGG19"))):
            block = -(-size // 16)
            rows.append((text, sum(_predicted_us(page, joined, each, block) for each in ("alltoall", "allgather"))))
    page.table(("network, gradients", "exchange, ms", "busy, %"),
               [(text, number(us / 1000, 0), number(100 * us / max(1e6, us), 0)) for text, us in rows])
    page.text("The same by strategies, with 20 Gbit/s in one interface: BML waits for all, Canary for nobody.")
    names = [BML, "canary/topology=mesh", "canary/topology=mesh/compression=sketch", "canary", "canary/compression=sketch"]
    found = page.run("predict", "strategies", "--strategies", ",".join(names), "--ranks", 16, "--per-machine", 1, "--gbit", 20,
                     "--latency", 30, "--size", "532M", "--compute-ms", 1000, "--straggler", "none")
    page.table(("strategy", "s a step", "interface busy, %", "GB a step"),
               [(f"`{row['strategy']}`", number(16 / row["steps_per_s"]), number(100 * row["median_share"], 0),
                 number(row["bytes_per_step"] / 1e9)) for row in found])


def pieces_over_rails(page):
    page.section("Section 5: pieces over several interfaces",
                 "The exchange of gradients on four hosts of this machine, on one and on two rails of 100 Mbit/s each: an "
                 "iteration in which each rank sends all pieces to the three others (`bulk`), and the share of the bytes on the "
                 "rail that had fewer. A piece of 1 MiB or more is cut and goes over all rails; a smaller one takes the rail "
                 "with the least to do.")
    rows = []
    for colayers, size, text in ((8, 65536, "8 of 64 KiB"), (8, 262144, "8 of 256 KiB"), (2, 4 << 20, "2 of 4 MiB")):
        found = []
        for rails in (1, 2):
            words = ["tools/netns", "-n", "4", "-r", str(rails), "--rates", "100", "--each"]
            program = ["exchange_program", str(colayers), str(size), "2" if page.quick else "7", "0"]
            page.commands(shlex.join([*words, *program]))
            done = subprocess.run([*words, str(page.weft.parent / program[0]), *program[1:]], capture_output=True, text=True,
                                  timeout=300, check=True, cwd=ROOT)
            found += documents("".join(line.partition("] ")[2] for line in done.stdout.splitlines()))
        one, two = found
        rows.append((text, number(one["p50_us"] / 1000, 0), number(two["p50_us"] / 1000, 0),
                     number(one["p50_us"] / two["p50_us"]), f"{100 * two['least_share']:.0f}%"))
    page.table(("colayers", "one rail, ms", "two rails, ms", "times as fast", "least share"), rows)


def quality(page):
    page.section("Fig. 22a: what a model loses by the sketch", "Digits on 8 ranks, the gradient as it is and as a sketch.")
    steps = "60" if page.quick else "600"
    names = [name + way for name in ("allreduce", "dpsgd", "canary/colayers=2", "canary:bulk/colayers=2")
             for way in ("", "/compression=sketch")]
    found = page.strategies(names, "-n", "8",
                            "--task", "digits", "--compute-ms", "5", "--steps", steps, "--straggler", "none")
    page.table(("strategy", "accuracy, %", "loss", "bytes a step"),
               [(f"`{name}`", number(100 * row["accuracy"]), number(row["loss"], 3), number(row["bytes_per_step"], 0))
                for (name, _), row in found.items()])
    page.needs("Fig. 22a, shares of 20 to 80%", "a setting that sketches a share of the gradients; shown are 0 and 100%")


def workers(page):
    page.section("Fig. 19: accuracy by workers", "4 to 25 workers, BCube(2, 2) to BCube(5, 2) in the paper; digits here.")
    steps, names = ("60" if page.quick else "400"), ["canary", "canary/topology=mesh", "allreduce"]
    cells = {}
    for ranks in (4, 9, 16, 25):
        found = page.strategies(names, "-n", ranks, "--task", "digits", "--compute-ms", "5", "--steps", steps, "--straggler",
                                "none")
        for (name, _), row in found.items():
            cells.setdefault(name, []).append(row["accuracy"])
    page.table(("accuracy, %", "4", "9", "16", "25"),
               [(f"`{name}`", *(number(100 * each) for each in values)) for name, values in cells.items()])


def to_loss(page):
    page.section("Fig. 23: time to a loss",
                 "Nine workers, digits, one worker of +2x. The paper's rows are times beside Canary's, for VGG19 on Fashion "
                 "MNIST without a slow worker that it names. A digits model of 10 KiB costs no network anything, so what is shown "
                 "is who waits for whom, and not what the sketch saves.")
    found = page.strategies([*TO_LOSS], "-n", "9", "--task", "digits", "--compute-ms", "5", "--straggler", "+2x", seconds=4)
    rows = {name: row for (name, slow), row in found.items() if slow}
    own = rows["canary"].get("seconds_to_loss")
    page.table(("strategy", "times Canary's: paper", "here", "steps/s", "kept at +2x", "s to loss 0.3", "accuracy, %", "dropped"),
               [(f"{TO_LOSS[name][0]} (`{name}`)", number(TO_LOSS[name][1]),
                 number(own and row.get("seconds_to_loss") and row["seconds_to_loss"] / own), number(row["steps_per_s"], 0),
                 number(row["kept"]), number(row.get("seconds_to_loss")), number(100 * row["accuracy"]),
                 number(row["dropped"], 0)) for name, row in rows.items()])


def sketch_in_allreduce(page):
    page.section("Fig. 25 to 27: the sketch in an allreduce by name",
                 "What Horovod and BytePS gain in the paper, between two hosts of this machine whose link has 100 Mbit/s: 64 "
                 "gradients of 64 KiB, submitted one by one.")
    rows = {}
    for way in ("none", "sketch"):
        page.commands(f"tools/netns -n 2 --rates 100 --each weft perf named --tensors 64x16384 --compression {way} --transport automatic")
        rows[way] = cluster_rows(page, "netns", 2, [100], "perf", "named", "--tensors", "64x16384", "--compression", way,
                                 "--transport", "automatic", "--ranks", "2", "--seconds", "0.2" if page.quick else "1")
    by_way = {way: {row["way"]: row["p50_us"] for row in each} for way, each in rows.items()}
    page.table(("submitted as", "ms", "as sketches, ms", "times as fast"),
               [(name, number(us / 1000, 1), number(by_way["sketch"][name] / 1000, 1), number(us / by_way["sketch"][name]))
                for name, us in by_way["none"].items() if name in by_way["sketch"]])


def utilization(page):
    page.section("Fig. 7: a server's interface and a worker's",
                 "How busy interfaces are while VGG19 trains on 18 machines with 10 Gbit/s, a second of computing a step, "
                 "predicted. In the paper, with three servers, a server is busy up to 79.84% and a worker up to 25.69%.")
    rows = page.run("predict", "strategies", "--strategies", "parameter_server,sharded_server,ring,prague:static", "--ranks",
                    18, "--per-machine", 1, "--gbit", 10, "--latency", 30, "--size", "508M", "--compute-ms", 1000,
                    "--straggler", "none")
    page.table(("strategy", "busiest interface, %", "median, %", "s a step"),
               [(f"`{row['strategy']}`", number(100 * row["busiest_share"], 1), number(100 * row["median_share"], 1),
                 number(18 / row["steps_per_s"])) for row in rows])
    page.picture("fig-7", "How busy interfaces are", lambda path: plot.bars(
        path, "How busy the interfaces are, VGG19 on 18 machines",
        {row["strategy"]: {"busiest": 100 * row["busiest_share"], "median": 100 * row["median_share"]} for row in rows}, "%"))


def report(page):
    utilization(page)
    interfaces(page)
    exchange(page)
    pieces_over_rails(page)
    sketch_costs(page)
    traffic(page)
    use_of_links(page)
    quality(page)
    workers(page)
    to_loss(page)
    sketch_in_allreduce(page)
    page.needs("Fig. 22b: forward and backward beside the sketch", "the GPUs of the paper, whose times of a batch they are")
    page.needs("Fig. 23: Ako, at 2.28 times Canary's time", "Ako's exchange, which sends a part of the gradient in turns")
    page.needs("Fig. 4, 8, 9, 18, 20, 21 and 24: times, gradients and accuracies on GPUs", "16 P100 or 9 V100 GPUs, CIFAR-10")
