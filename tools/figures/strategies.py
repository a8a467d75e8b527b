"""Part 13: ways to train one model together, with and without a slow rank, and what compression saves."""

import json
import statistics
import subprocess

from figures.clusters import cluster_median_s, documents
from figures.runs import ROUNDS, RUN_LIMIT_S, M, at_least, at_most, in_turn, missing, ratio_of, remark, rows_of, show, size_text

# Beside them stand those that the paper compares with.
GROUPS = ("prague:static", "prague")
BESIDE = ("parameter_server", "allreduce", "ad_psgd")
JOB = ("--ranks", "16", "--hosts", "4", "--compute-ms", "20", "--seconds", "2", "--straggler", "+2x,+5x")
DIGITS = ("--task", "digits", "--ranks", "8", "--compute-ms", "0", "--steps", "600", "--straggler", "none")
KEPT = {2: (0.8, "paper 0.80; all-reduce 0.39"), 5: (0.45, "paper 0.41 to 0.46, target 0.80; all-reduce 0.24")}


def strategies_of(runs):
    """The names that this build has."""
    words = [str(runs.weft), "perf", "strategies", "--strategies", "none-of-them", "--steps", "2"]
    said = subprocess.run(words, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False).stderr
    return said.partition("there are ")[2].replace(",", " ").split()


def straggler_figures(runs, known):
    """All strategies in each round; the figure is the median of the rounds."""
    present = [name for name in (*BESIDE, *GROUPS) if name in known]
    kept, speed = {}, {}
    for _ in range(ROUNDS):
        for row in runs.perf("strategies", "--strategies", ",".join(present), *JOB):
            kept.setdefault((row["strategy"], row["straggler"]), []).append(row["kept"])
            if row["straggler"] == 0:
                speed.setdefault(row["strategy"], []).append(row["steps_per_s"])
    for times, (least, paper) in KEPT.items():
        beside = ", ".join(f"{name} {statistics.median(kept[name, times]):.2f}" for name in present if name != "prague")
        remark(f"one of 16 ranks sleeps {times} iteration times more ({paper}); kept in the same run: {beside}")
        if "prague" in known:
            at_least(f"smart Prague, +{times}x, steps/s kept", statistics.median(kept["prague", times]), least, "no straggler")
        else:
            missing(f"smart Prague, +{times}x, steps/s kept", f">= {least:.2f}", "this build has no prague")
    remark("without a straggler")
    for name in GROUPS:
        if name in known:
            at_least(f"{name}, steps/s", ratio_of(speed[name], speed["ad_psgd"]), 1, "AD-PSGD")
        else:
            missing(f"{name}, steps/s", ">= 1.00", f"this build has no {name}")


def generator_figures(runs):
    """What a worker waits for the generator, of a step of 20 ms, on live ranks."""
    words = [str(runs.weft), "run", "-n", "16", "--", str(runs.weft.parent / "bench_generator"), "20", "3"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=True)
    (row,) = documents(done.stdout)
    runs.keep("weft run -n 16 -- bench_generator 20 3", row)
    remark(f"a worker that averages with nobody, {row['p50_us']:.0f} us in begin() and average()")
    at_most("generator, of a step of 20 ms, %", 100 * row["share"], 1, "16 ranks")
    at_most("generator, messages of a worker each way", max(row["sent"], row["received"]), 1.1, "an iteration")


def simulated_figures(runs):
    rows = rows_of([str(runs.weft), "predict", "strategies", "--strategies", "allreduce,ad_psgd,prague:static,prague",
                    "--generator", "--json", "-"])
    (generator,) = [row for row in rows if row["op"] == "generator"]
    kept = {(row["strategy"], row["straggler"]): row["kept"] for row in rows if row["op"] == "forecast"}
    for row in rows:
        runs.keep("weft predict strategies", row)
    for times, (least, _) in KEPT.items():
        others = ", ".join(f"{name} {kept[name, times]:.2f}" for name in ("allreduce", "ad_psgd", "prague:static"))
        remark(f"predicted for 1,024 ranks, +{times}x; the others keep: {others}")
        at_least(f"smart Prague, 1,024 ranks, +{times}x, kept", kept["prague", times], least, "no straggler")
    share = generator["core_share"]
    show("generator of 1,024 ranks, of a core", f"{100 * share:.2f}%", "<= 100%",
         f"{generator['us_per_request']:.2f} us a request, a step of 20 ms", share <= 1)


def kernel_figures(runs):
    """Encoding and decoding on one core, of what the cache does not hold as well."""
    words = [str(runs.weft.parent / "bench_compress"), "--benchmark_filter=(en|de)code/sketch", "--benchmark_format=json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=True)
    for row in json.loads(done.stdout)["benchmarks"]:
        way, size = row["name"].rpartition("/")[0], int(row["name"].rpartition("/")[2])
        if size < M:
            continue
        rate = row["bytes_per_second"] / 1e9
        runs.keep("bench_compress", {"op": way, "bytes": size, "algbw_GBps": rate})
        at_least(f"{way}, {size_text(size)}, GB/s", rate, 2, "a core; bytes of float32")


def digits_figures(runs):
    # In a section of ten steps there are as many gradients as in ten steps of an all-reduce.
    rows = {row["strategy"]: row for row in runs.perf(
        "strategies", *DIGITS, "--strategies", "allreduce,allreduce/compression=sketch,diloco/section=10,noloco/section=10")}
    whole = rows["allreduce"]
    remark(f"digits, 8 ranks, 600 steps: all-reduce of float32 reads {whole['accuracy']:.4f} right")
    for name, most in (("allreduce/compression=sketch", None), ("diloco/section=10", 8), ("noloco/section=10", 8)):
        row = rows[name]
        lost = 100 * (whole["accuracy"] - row["accuracy"])
        at_most(f"{name}, points of accuracy lost", lost, 0.5, "all-reduce of float32")
        if most is not None:
            at_least(f"{name}, bytes", whole["bytes_per_step"] / row["bytes_per_step"], most, "all-reduce of float32")


def sketch_bytes(runs):
    """As `weft perf strategies` counts them: of an all-reduce, which is the same part of either."""
    for size in ("1M", "16M"):
        rows = runs.perf("strategies", "--ranks", "2", "--compute-ms", "0", "--steps", "2", "--straggler", "none", "--size", size,
                         "--strategies", "allreduce,allreduce/compression=sketch")
        whole, sketch = (row["bytes_per_step"] for row in rows)
        at_most(f"sketch of {size}iB, bytes", sketch / whole, 0.27, "float32")


def shaped_figures(runs):
    """A step is the exchange of a gradient of 4 MiB; what it computes hides nothing of it."""
    def on(*words):
        return lambda: cluster_median_s(runs, "netns", 2, (100,), "allreduce", "--sizes", "4M", "--seconds", "5", *words)

    took = in_turn(whole=on(), sketch=on("--compression", "sketch"))
    at_least("a step over 100 Mbit/s, 4 MiB, 2 hosts", ratio_of(took["whole"], took["sketch"]), 3, "float32")


def part_13(runs, _scratch):
    straggler_figures(runs, strategies_of(runs))
    generator_figures(runs)
    simulated_figures(runs)
    sketch_bytes(runs)
    kernel_figures(runs)
    shaped_figures(runs)
    digits_figures(runs)
