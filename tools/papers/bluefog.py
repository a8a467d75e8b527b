"""BlueFog (Ying et al. 2021): what neighbors cost beside all ranks, and what a model loses by it."""

from figures import plot
from papers.page import number

TITLE = "BlueFog"
REFERENCE = ("Ying, Yuan, Hu, Chen, Huang, Pan, Yin: BlueFog: Make Decentralized Algorithms Practical for Optimization "
             "and Deep Learning, 2021.")

MEGABYTE = 1_000_000
# Bytes of float32 gradients, and milliseconds of forward and backward of a batch on one V100.
MODELS = {"ResNet-50": (102_000_000, 180), "VGG-16": (553_000_000, 290), "BERT-large": (1_380_000_000, 450)}
TABLE_2 = {"allreduce": ("Horovod", 76.6, 1.00), "hierarchical": ("H-ATC", 76.4, 1.30), "dpsgd/peers=1": ("ATC", 75.2, 1.40),
           "dpsgd:awc": ("AWC", 74.5, 1.43)}
# Top-1 of ResNet-50, static and dynamic.
TABLE_3 = {"allreduce": (76.21, None), "dpsgd": (76.14, 76.06), "dmsgd": (76.50, 76.52), "qg_dmsgd": (76.43, 76.35)}


def table_1(page):
    page.section("Table I: what a round costs",
                 "n ranks, M bytes, B bytes/s, latency L. Predicted for 1 MB on Ethernet of 10 Gbit/s and 30 us, "
                 "beside the paper's formula with the same M, B and L. The parameter server is a reduction to rank 0 and "
                 "a broadcast from it; BytePS is the mesh, in which each rank serves a share; it needs no more machines, "
                 "so each interface carries 2M instead of M. Weft's reduction is split over the ranks and its "
                 "broadcast is a tree, so that server is faster than nM/B.")
    ranks = (4, 16, 64, 256)
    flow_us, latency_us = MEGABYTE * 8 / 10e9 * 1e6, 30
    up, down = (page.predict("ethernet", operation, MEGABYTE, ranks) for operation in ("reduce", "broadcast"))
    server = {n: up[n] + down[n] for n in ranks}
    found = {"parameter server": (server, "nM/B + nL", lambda n: n * (flow_us + latency_us))}
    for name, algorithm, formula, cost in (
            ("ring", "ring", "2M/B + 2nL", lambda n: 2 * flow_us + 2 * n * latency_us),
            ("BytePS", "mesh", "M/B + nL", lambda n: flow_us + n * latency_us)):
        found[name] = (page.predict("ethernet", "allreduce", MEGABYTE, ranks, "--algorithm", algorithm), formula, cost)
    found["partial averaging"] = (page.predict("ethernet", "neighbor_allreduce", MEGABYTE, ranks, "--graph",
                                               "one_peer_exponential"),
                                  "M/B + L", lambda n: flow_us + latency_us)
    page.table(("primitive", "paper", *(f"n = {n}: formula, us" if n == ranks[0] else f"{n}: formula" for n in ranks),
                *(f"{n}: Weft" for n in ranks)),
               [(name, formula, *(number(cost(n), 0) for n in ranks), *(number(us[n], 0) for n in ranks))
                for name, (us, formula, cost) in found.items()])
    page.picture("table-1", "Time of a round by ranks", lambda path: plot.curves(
        path, "1 MB on 10 Gbit/s, 30 us", "ranks", "us", {name: list(us.items()) for name, (us, _, _) in found.items()}))


def figure_11(page):
    page.section("Fig. 11: allreduce, neighbors, dynamic neighbors",
                 "1 MB on the CPU. Measured: processes of this machine, median and, in brackets, the fastest and the 99th "
                 "percentile; with more ranks than cores ranks also wait for a core. Predicted: machines of 16 ranks "
                 "would share an interface, so the paper's curves to 128 cores are drawn for one rank on each.")
    seconds, here = ("0.2" if page.quick else "1.0"), {}
    for name, words in (("allreduce", ("allreduce",)), ("neighbors, ring", ("neighbor_allreduce", "--graph", "ring")),
                        ("dynamic neighbors", ("neighbor_allreduce", "--graph", "ring:style=2", "--dynamic"))):
        for ranks in (2, 4, 8):
            (here[name, ranks],) = page.run("perf", *words, "-n", ranks, "--sizes", MEGABYTE, "--seconds", seconds,
                                            show=ranks == 2)
    names = list(dict.fromkeys(name for name, _ in here))
    page.table(("measured, us", "2 ranks", "4 ranks", "8 ranks"),
               [(name, *(f"{number(row['p50_us'], 0)} ({number(row['min_us'], 0)} to {number(row['p99_us'], 0)})"
                         for row in (here[name, ranks] for ranks in (2, 4, 8)))) for name in names])
    ranks = (2, 4, 8, 16, 32, 64, 128)
    curves = {"allreduce": page.predict("ethernet", "allreduce", MEGABYTE, ranks, "--algorithm", "ring"),
              "neighbors, ring": page.predict("ethernet", "neighbor_allreduce", MEGABYTE, ranks, "--graph", "ring"),
              "dynamic neighbors": page.predict("ethernet", "neighbor_allreduce", MEGABYTE, ranks, "--graph",
                                                "one_peer_exponential")}
    page.table(("predicted, us", *(f"{n} ranks" for n in ranks)),
               [(name, *(number(us[n], 0) for n in ranks)) for name, us in curves.items()])
    measured = {f"{name}, here": [(ranks, here[name, ranks]["p50_us"]) for ranks in (2, 4, 8)] for name in names}
    page.picture("fig-11", "Times by ranks", lambda path: plot.curves(
        path, "1 MB: predicted for Ethernet, and measured on this machine", "ranks", "us",
        {**{name: list(us.items()) for name, us in curves.items()}, **measured}))
    page.needs("Fig. 11, right: 10 MB on GPUs", "16 V100 GPUs on two machines")


def figure_12(page):
    page.section("Fig. 12: training speed on 128 GPUs",
                 "Predicted for 16 machines of 8 GPUs with 25 Gbit/s, one interface. The paper does not say how long a "
                 "batch computes; taken are " + ", ".join(f"{ms} ms for {name}" for name, (_, ms) in MODELS.items()) +
                 ". ATC exchanges after the computation, AWC beside it, and so does the allreduce of Horovod, half of whose "
                 "time is taken to be hidden by the backward pass. The predicted allreduce uses the interface fully, which "
                 "NCCL on TCP does not, so these ratios are below the paper's where computing dominates.")
    allreduce, near, machines = {}, {}, {}
    for name, (size, _) in MODELS.items():
        allreduce[name] = page.predict("cloud-gpus", "allreduce", size, (8, 128), show=name == "ResNet-50")
        near[name] = page.predict("cloud-gpus", "neighbor_allreduce", size, (128,), "--graph",
                                  "inner_outer_exponential:local=8", show=name == "ResNet-50")
        machines[name] = page.predict("cloud-gpus", "hierarchical_neighbor_allreduce", size, (128,), "--graph",
                                      "machine_exponential", show=name == "ResNet-50")
    rows, groups = [], {}
    for name, (_, compute) in MODELS.items():
        all_ms, near_ms, machines_ms = (each[name][128] / 1000 for each in (allreduce, near, machines))
        horovod = max(compute, compute / 2 + all_ms)
        steps = {"ATC": compute + near_ms, "AWC": max(compute, near_ms), "H-ATC": compute + machines_ms,
                 "H-AWC": max(compute, machines_ms)}
        groups[name] = {way: horovod / ms for way, ms in steps.items()}
        rows.append((name, "1.2 to 1.8", *(number(value) for value in groups[name].values()),
                     number(compute / steps["AWC"])))
    page.table(("times as fast as Horovod, 128 GPUs", "paper", *steps, "efficiency of AWC"), rows)
    page.picture("fig-12", "Speed beside an allreduce", lambda path: plot.bars(
        path, "Times as fast as an allreduce, 128 GPUs, predicted", groups))
    page.text("The paper has an efficiency above 0.95 for ResNet-50 and of 0.5 to 0.6 for VGG-16 and BERT-large.")


def figure_8(page):
    page.section("Fig. 8: ATC and AWC as timelines",
                 "Three equal layers, 10 ms forward and 20 ms backward each, and the time that a third of ResNet-50 takes to "
                 "a neighbor on 25 Gbit/s. ATC sends what the layer became by its gradient, so the first layer's exchange "
                 "is in nobody's shadow. AWC sends what the layer was, beside the whole iteration.")
    size, layers = 34_000_000, (1, 2, 3)
    exchange = page.predict("cloud-gpus", "neighbor_allreduce", size, (128,), "--graph",
                            "inner_outer_exponential:local=8")[128] / 1000
    compute = [(10 * (k - 1), 10 * k, f"F{k}") for k in layers] + [(90 - 20 * k, 110 - 20 * k, f"B{k}") for k in layers]
    ends = {"ATC": {}, "AWC": {}}
    free = 0.0
    for k in reversed(layers):  # after the backward pass of each layer
        free = max(free, 110 - 20 * k) + exchange
        ends["ATC"][k] = free
    free = 0.0
    for k in layers:  # from the beginning on
        free += exchange
        ends["AWC"][k] = free
    rows = {}
    for way, by_layer in ends.items():
        rows[f"{way}: computes"] = compute
        rows[f"{way}: exchanges"] = [(end - exchange, end, f"E{k}") for k, end in by_layer.items()]
    page.table(("ms", "iteration", "of it not computing"),
               [(way, number(max(90, *by_layer.values()), 1), number(max(90, *by_layer.values()) - 90, 1))
                for way, by_layer in ends.items()])
    page.picture("fig-8", "ATC and AWC", lambda path: plot.spans(path, "One iteration, ms", rows))


def accuracy(page):
    names = [*TABLE_2, "dpsgd", "dmsgd", "dmsgd/peers=1", "qg_dmsgd", "qg_dmsgd/peers=1"]
    page.section("Tables II and III: what a model loses",
                 "The paper trains on ImageNet; here eight ranks on four machines learn to read handwritten digits (1,797 "
                 "images), 600 steps each. A rank's images are its own. Digits are too easy to part the momentum methods; "
                 "the order of the times, which is that of the bytes, is the paper's.")
    steps = 60 if page.quick else 600
    found = page.strategies(names, "-n", "8", "--hosts", "4", "--task", "digits", "--compute-ms", "0", "--steps",
                            str(steps), "--straggler", "none")
    rows = {name: row for (name, _), row in found.items()}
    base = rows["allreduce"]
    page.table(("Table II", "top-1 there, %", "here, %", "speedup there", "KiB a step here"),
               [(f"{paper} (`{name}`)", number(top, 1), number(100 * rows[name]["accuracy"], 1), number(speedup),
                 number(rows[name]["bytes_per_step"] / 1024, 1))
                for name, (paper, top, speedup) in TABLE_2.items() if name in rows])
    page.table(("Table III", "static there, %", "here, %", "dynamic there, %", "here, %", "dynamic: bytes of static"),
               [(f"`{name}`", number(static), number(100 * rows[name]["accuracy"]), number(dynamic),
                 number(100 * rows[f"{name}/peers=1"]["accuracy"]) if dynamic else "—",
                 number(rows[f"{name}/peers=1"]["bytes_per_step"] / rows[name]["bytes_per_step"]) if dynamic else "—")
                for name, (static, dynamic) in TABLE_3.items()])
    page.text(f"Loss after {steps} steps: " + ", ".join(
        f"{name} {row['loss']:.3f}" for name, row in rows.items()) + f". The allreduce sends "
        f"{base['bytes_per_step'] / 1024:.1f} KiB a rank and step.")
    page.needs("Fig. 13, and Table III for MobileNet-v2 and EfficientNet", "64 GPUs and ImageNet")


def fusion(page):
    page.section("Tensor fusion, for neighbors and for all (section VI-C)",
                 "ResNet-50's 161 gradients submitted by name, one by one, on two ranks of this machine. The paper expects "
                 "a smaller buffer to be best for neighbors than for an allreduce, as a message to a neighbor has one "
                 "latency.")
    rows = page.run("perf", "named", "-n", "2", "--seconds", "0.2" if page.quick else "1.5")
    page.table(("way", "batches", "ms", "ms in one tensor", "ratio"),
               [(row["way"].replace("_", " "), number(row["batches"], 0), number(row["p50_us"] / 1000),
                 number(row["one_p50_us"] / 1000), number(row["ratio"])) for row in rows])


def report(page):
    table_1(page)
    figure_11(page)
    figure_8(page)
    figure_12(page)
    accuracy(page)
    fusion(page)
    page.section("Fig. 1 to 7, 9 and 10", "They are drawings of ideas. The fish of Fig. 5 and 6 swim in `examples/fish`, and "
                 "`weft graph` draws the graphs.")
