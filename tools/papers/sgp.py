"""Stochastic Gradient Push (Assran et al. 2019): what one message a step costs, and how well it mixes."""

import random

from figures import plot
from papers.page import number

TITLE = "Stochastic Gradient Push"
REFERENCE = "Assran, Loizou, Ballas, Rabbat: Stochastic Gradient Push for Distributed Deep Learning, 2019."

BYTES = 100_000_000  # of ResNet-50, as the paper says
NODES = (4, 8, 16, 32)
COMPUTE_MS = 310     # «less than 0.31 s an iteration» on InfiniBand (section 5.2)


def figure_4(page):
    page.section("Fig. 4b: time of an iteration on Ethernet of 10 Gbit/s",
                 f"ResNet-50, {COMPUTE_MS} ms of computing, predicted. SGP sends beside the computation; D-PSGD's pairs "
                 "exchange after it; the allreduce follows it, too. The paper's figure has no table; its text says that SGP "
                 "and D-PSGD stay constant, that SGP is about 200 ms faster than D-PSGD, and that the allreduce grows.")
    message = page.predict("ethernet", "neighbor_allreduce", BYTES, NODES, "--graph", "one_peer_exponential")
    pair = page.predict("ethernet", "neighbor_allreduce", BYTES, NODES, "--graph", "undirected_one_peer")
    allreduce = page.predict("ethernet", "allreduce", BYTES, NODES, "--algorithm", "ring")
    ways = {"SGP, overlapped": {n: max(COMPUTE_MS, us / 1000) for n, us in message.items()},
            "SGP, not overlapped": {n: COMPUTE_MS + us / 1000 for n, us in message.items()},
            "D-PSGD": {n: COMPUTE_MS + us / 1000 for n, us in pair.items()},
            "allreduce, ring": {n: COMPUTE_MS + us / 1000 for n, us in allreduce.items()}}
    page.table(("ms", *(f"{n} nodes" for n in NODES), "32 nodes by 4"),
               [(name, *(number(ms[n], 0) for n in NODES), number(ms[32] / ms[4])) for name, ms in ways.items()])
    page.picture("fig-4b", "Time of an iteration by nodes", lambda path: plot.curves(
        path, "ResNet-50 on 10 Gbit/s, predicted", "nodes", "ms", {name: list(ms.items()) for name, ms in ways.items()}))
    page.text("D-PSGD is slower than SGP by what its exchange takes, "
              f"{ways['D-PSGD'][32] - ways['SGP, overlapped'][32]:.0f} ms here and about 200 ms in the paper. What an "
              "allreduce loses to nodes that are not equally fast in every iteration is not in the prediction.")
    return ways, message


def scaling(page, ways):
    page.section("Fig. B.17: scaling from 4 to 32 nodes",
                 "Images of all nodes a second, beside four nodes times their number.")
    low = page.predict("infiniband", "neighbor_allreduce", BYTES, NODES, "--graph", "one_peer_exponential")
    low = {n: max(COMPUTE_MS, us / 1000) for n, us in low.items()}
    page.table(("SGP", "paper", "predicted"),
               [("Ethernet, 10 Gbit/s", "88.6%", f"{100 * ways['SGP, overlapped'][4] / ways['SGP, overlapped'][32]:.1f}%"),
                ("InfiniBand", "92.4%", f"{100 * low[4] / low[32]:.1f}%")])
    page.text("In the prediction all nodes are equally fast and read their images from nowhere, so nothing is lost. What "
              "the paper loses is in what a node does besides the exchange.")


def product_sigma(steps, size):
    """The second singular value of a product of matrices: power iteration on vectors that sum to 0."""
    draws = random.Random(1)
    vector = [draws.uniform(-1, 1) for _ in range(size)]
    value = 0.0
    for _ in range(60):
        mean = sum(vector) / size
        vector = [each - mean for each in vector]
        norm = sum(each * each for each in vector) ** 0.5
        if norm < 1e-12:
            return 0.0
        vector = [each / norm for each in vector]
        there = vector
        for step in steps:
            there = [sum(weight * there[source] for source, weight in row) for row in step]
        value = sum(each * each for each in there) ** 0.5
        for step in reversed(steps):
            back = [0.0] * size
            for rank, row in enumerate(step):
                for source, weight in row:
                    back[source] += weight * there[rank]
            there = back
        vector = there
    return value


def cycle(size, hops):
    return [[((rank, 0.5), ((rank - hop) % size, 0.5)) for rank in range(size)] for hop in hops]


def drawn(size, hops, steps, draws):
    """Each rank sends to a random one of those at `hops`: row-stochastic only on average, as in the paper."""
    found = []
    for _ in range(steps):
        rows = [[(rank, 0.5)] for rank in range(size)]
        for rank in range(size):
            rows[(rank + draws.choice(hops)) % size].append((rank, 0.5))
        found.append(rows)
    return found


def mixing(page):
    page.section("Appendix A: how well the schedules mix",
                 "32 nodes, the second singular value of the product of five steps; 0 means that all nodes hold the mean. "
                 "The numbers of the paper's text are lost in the copy that was at hand, but for the zero.")
    size, hops = 32, [1, 2, 4, 8, 16]
    draws = random.Random(7)
    ways = {"one peer of the exponential graph after the other": ("0", product_sigma(cycle(size, hops), size)),
            "one peer of the complete graph after the other": ("above 0", product_sigma(cycle(size, range(1, 6)),
                                                                                               size))}
    for name, chosen in (("a random peer of the exponential graph", hops),
                         ("a random peer of the complete graph", list(range(1, size)))):
        rounds = [product_sigma(drawn(size, chosen, 5, draws), size) for _ in range(9 if page.quick else 51)]
        ways[name] = ("above 0", sorted(rounds)[len(rounds) // 2])
    page.table(("five steps", "paper", "here"), [(name, paper, number(sigma)) for name, (paper, sigma) in ways.items()])
    (row,) = page.run("graph", "one_peer_exponential", size)
    page.text(f"`weft graph` agrees: second singular value of a period of {row['period']} steps {row['mixing']['sigma2']:g}.")


def peers(page):
    page.section("Fig. 11: one peer and two",
                 "32 ranks that learn digits. In the paper two peers come closer to SGD's accuracy and cost more time.")
    steps = "60" if page.quick else "600"
    found = page.strategies(["sgp/peers=1", "sgp/peers=2", "dpsgd/peers=1", "allreduce"], "-n", "32", "--task", "digits",
                            "--compute-ms", "0", "--steps", steps, "--straggler", "none")
    page.table(("strategy", "accuracy, %", "loss", "distance from the mean", "KiB a step"),
               [(f"`{name}`", number(100 * row["accuracy"]), number(row["loss"], 3), number(row["consensus"], 4),
                 number(row["bytes_per_step"] / 1024, 1)) for (name, _), row in found.items()])


def tables_1_2(page):
    page.section("Tables 1 and 2: accuracy by nodes",
                 "Digits instead of ImageNet, 600 steps by each of 4 to 32 ranks. The paper's cells are lost in the copy that "
                 "was at hand; its text says that SGP and D-PSGD lose a little with the number of nodes, and AD-PSGD no "
                 "more than D-PSGD.")
    steps, names = ("60" if page.quick else "600"), ["allreduce", "dpsgd/peers=1", "ad_psgd", "sgp/peers=1"]
    cells = {name: [] for name in names}
    for ranks in NODES:
        found = page.strategies(names, "-n", ranks, "--task", "digits", "--compute-ms", "0", "--steps", steps, "--straggler",
                                "none")
        for name in names:
            cells[name].append(found[name, 0.0]["accuracy"])
    page.table(("accuracy, %", *(f"{n} nodes" for n in NODES)),
               [(f"`{name}`", *(number(100 * each) for each in values)) for name, values in cells.items()])


def decay(page):
    page.section("Fig. B.12: nodes agree as the rate decays",
                 "The distance of the models from their mean, beside the mean, after as many steps at each rate. 16 ranks.")
    steps, rates = ("60" if page.quick else "400"), (0.5, 0.1, 0.02, 0.004)
    found = page.strategies([f"sgp/rate={rate}" for rate in rates], "-n", "16", "--task", "digits", "--compute-ms", "0",
                            "--steps", steps, "--straggler", "none")
    page.table(("rate", "distance from the mean"),
               [(name.partition("=")[2], f"{row['consensus']:.2e}") for (name, _), row in found.items()])


def exact(page):
    page.section("Section 3: W = 1/n is an allreduce",
                 "SGD whose gradients are averaged by an allreduce, and D-PSGD on the complete graph with weights 1/n, whose "
                 "models are: the same loss to the last digits, as all models begin alike.")
    steps = "60" if page.quick else "300"
    found = page.strategies(["allreduce", "dpsgd"], "-n", "8", "--graph", "fully_connected", "--task", "digits",
                            "--compute-ms", "0", "--steps", steps, "--straggler", "none")
    page.table(("strategy", "loss", "accuracy, %", "distance from the mean"),
               [(f"`{name}`", f"{row['loss']:.9f}", number(100 * row["accuracy"]), f"{row['consensus']:.1e}")
                for (name, _), row in found.items()])


def report(page):
    ways, _ = figure_4(page)
    scaling(page, ways)
    mixing(page)
    peers(page)
    tables_1_2(page)
    decay(page)
    exact(page)
    page.needs("Fig. 4a and c, Table 3: accuracy on ImageNet", "256 GPUs and ImageNet")
    page.needs("Fig. 8: InfiniBand with GPUDirect, measured", "GPUs on machines with RDMA interfaces")
