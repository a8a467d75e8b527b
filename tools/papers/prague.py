"""Prague (Luo et al. 2020): partial all-reduce by groups, and what a slow worker costs."""

import subprocess

from figures import plot
from figures.clusters import documents
from papers.page import number

TITLE = "Prague"
REFERENCE = ("Luo, He, Zhuo, Qian: Prague: High-Performance Heterogeneity-Aware Asynchronous Decentralized Training, "
             "ASPLOS 2020.")

RANKS, MACHINES, COMPUTE_MS = 16, 4, 20
# Strategies in the paper's words, and its speedup over a parameter server: without a slow worker, with one of +2x (Fig. 18, 20).
WAYS = {"parameter_server": ("Parameter Server", 1.00, None), "allreduce": ("All-Reduce", 4.27, 1.66),
        "ad_psgd": ("AD-PSGD", 1.42, 1.37), "prague:static": ("Prague static", 5.01, 2.47),
        "prague:random": ("Prague random", 3.03, 2.13), "prague": ("Prague smart", 5.26, 4.23)}
# The same of one iteration, where the text of section 7.3 has it.
AN_ITERATION = {"parameter_server": 1.00, "ad_psgd": 1.18, "prague": 5.10}
# Images/s without and with a worker of +5x: ResNet-18 and ResNet-200 (Fig. 21, 22).
FIXED_TIME = {"allreduce": ((376.47, 89.8), (54.78, 13.01)), "ad_psgd": ((234.9, 104.1), (28.57, 12.45)),
              "prague": ((412.3, 169.5), (53.43, 24.62))}
# Iterations in ten hours and top-1 accuracy (Fig. 23).
TEN_HOURS = {"allreduce": (55800, 66.83), "ad_psgd": (32100, 58.28), "prague:static": (58200, 63.79),
             "prague": (56800, 64.21)}


def _times(found, name, slow, what):
    """Beside the parameter server without a slow worker: more is better."""
    base, row = found["parameter_server", 0.0].get(what), found[name, slow].get(what)
    if not base or not row:
        return "—"
    return number(base / row if what == "seconds_to_loss" else row / base)


def speedups(page):
    page.section("Fig. 18 and 20: times as fast as a parameter server, where messages cost what they cost there",
                 f"The paper's time to loss 0.32 of VGG-16, beside that of a parameter server without a slow worker. Here: steps/s "
                 f"predicted for its {RANKS} workers on {MACHINES} machines with 56 Gbit/s, and 553 MB of gradients, of which a "
                 "step computes 100 ms. The paper names neither time nor bytes. Steps are not time to a loss; what each "
                 "needs is in the section on Fig. 19.")
    rows = page.run("predict", "strategies", "--strategies", ",".join(WAYS), "--ranks", RANKS, "--per-machine",
                    RANKS // MACHINES, "--gbit", 56, "--latency", 2, "--size", "527M", "--compute-ms", 100, "--straggler", "+2x,+5x")
    found = {(row["strategy"], row["straggler"]): row for row in rows}
    page.table(("strategy", "to the loss: paper", "an iteration: paper", "here", "+2x, to the loss: paper",
                "+2x, an iteration: here", "+5x: here"),
               [(f"{WAYS[name][0]} (`{name}`)", number(WAYS[name][1]), number(AN_ITERATION.get(name)),
                 _times(found, name, 0.0, "steps_per_s"), number(WAYS[name][2]), _times(found, name, 2.0, "steps_per_s"),
                 _times(found, name, 5.0, "steps_per_s")) for name in WAYS])
    page.text("Two are not as in the paper. It ran AD-PSGD on TensorFlow's remote variables, where more than 90% of its time went "
              "(Fig. 2b). Here an average is two transfers between the two models, so AD-PSGD is limited by bytes, as the others are. "
              "Random groups are slower than the server here. Each request draws two more workers, so each worker is in three "
              "groups an iteration, and it joins those that others have asked for only between two of its own iterations: it "
              "waits three times for the slowest of three. The paper does not say when its workers join; beside the "
              "computation they would wait less.")


def stragglers(page):
    page.section("Fig. 18 and 20 to 22: speed with and without a slow worker",
                 f"{RANKS} ranks on {MACHINES} machines, threads that sleep {COMPUTE_MS} ms in each step as if they computed. "
                 "A slow worker sleeps two or five iteration times more, so it is three or six times as slow; the paper "
                 "calls this 2x and 5x. Steps are those of all ranks. Ranks of one machine exchange in shared memory, and "
                 "machines over TCP of this one. That costs little, so a parameter server is nearly as fast as an all-reduce "
                 "here; what a slow worker costs does not depend on that.")
    found = page.strategies([*WAYS], "-n", RANKS, "--hosts", MACHINES, "--compute-ms", COMPUTE_MS, "--straggler", "+2x,+5x",
                            seconds=4)
    names = [name for name in WAYS if (name, 0.0) in found]
    page.table(("strategy", "steps/s", "times PS", "kept at +2x: paper", "here", "kept at +5x: paper", "here", "KiB a step"),
               [(f"{WAYS[name][0]} (`{name}`)", number(found[name, 0.0]["steps_per_s"], 0),
                 _times(found, name, 0.0, "steps_per_s"), number(WAYS[name][2] and WAYS[name][2] / WAYS[name][1]),
                 number(found[name, 2.0]["kept"]),
                 _kept_of(name), number(found[name, 5.0]["kept"]), number(found[name, 0.0]["bytes_per_step"] / 1024, 0))
                for name in names])
    page.picture("stragglers", "Share of the speed that is kept", lambda path: plot.bars(
        path, "Share of steps/s kept with one slow worker of 16",
        {name: {text: found[name, slow]["kept"] for slow, text in ((2.0, "+2x"), (5.0, "+5x"))} for name in names}))
    page.text("Where messages cost next to nothing, waiting is all that is left. So random groups are the slowest, whether or not a "
              "worker is slow, and smart groups are not before the static schedule: both wait for one group a step, and the "
              "schedule asks nobody for it.")
    page.text("The slowdown filter (section 5.3) is another one than the paper's. There the generator counts requests, and leaves a worker out "
              "whose count is C_thres behind the asker's. A slow worker that was left out for a while is then taken for a "
              "slow one ever after, although it may be fast again, and in a new job all counts are equal, so that the first "
              "iterations wait for it. Here a request says how long its worker has computed, and a worker is slow if "
              "others compute `threshold` iterations meanwhile. The shorter one of its last two iterations counts, so one pause makes "
              "nobody slow, and who is fast again is so after one iteration.")
    ideal = COMPUTE_MS / 1000
    page.section("Fig. 2b: how much of a step is synchronization",
                 "The part of a rank's step that is not computing. The paper measures more than 0.9 for AD-PSGD on "
                 "TensorFlow's remote variables.")
    page.table(("strategy", "ms a step", "synchronizing"),
               [(f"`{name}`", number(1000 * RANKS / row["steps_per_s"], 1),
                 number(max(0, 1 - ideal * row["steps_per_s"] / RANKS))) for name, row in
                ((name, found[name, 0.0]) for name in names)])


def _kept_of(name):
    if name not in FIXED_TIME:
        return "—"
    shares = [slow / fast for fast, slow in FIXED_TIME[name]]
    return " and ".join(number(share) for share in shares)


def generator(page):
    page.section("Section 4.2: what the generator costs a worker",
                 f"{RANKS} ranks on this machine, of which one sleeps {COMPUTE_MS} ms in an iteration and the others 20 times as "
                 "long, so that it averages with nobody. What begin() and average() take then is the generator's part of the "
                 "critical path. The request leaves at the start of an iteration, and the answer comes while the worker computes.")
    words = ["run", "-n", str(RANKS), "--", str(page.weft.parent / "bench_generator"), str(COMPUTE_MS), "4"]
    page.commands(f"weft run -n {RANKS} -- bench_generator {COMPUTE_MS} 4")
    done = subprocess.run([str(page.weft), *words], capture_output=True, text=True, timeout=60, check=True)
    (row,) = documents(done.stdout)
    page.table(("of an iteration", "here"),
               [("median of both calls, us", number(row["p50_us"], 0)), ("of the step, %", number(100 * row["share"])),
                ("messages to the generator", number(row["sent"])), ("messages from it", number(row["received"]))])


def many(page):
    page.section("A thousand workers",
                 "What the paper's 16 and 32 workers cannot show: 1,024 on 128 machines with 100 Gbit/s, a model of 16 MB and "
                 "20 ms of computing, predicted.")
    rows = page.run("predict", "strategies", "--strategies", "parameter_server," + ",".join(list(WAYS)[1:]), "--ranks",
                    128 if page.quick else 1024, "--generator")
    found = {(row["strategy"], row["straggler"]): row for row in rows if row["op"] == "forecast"}
    page.table(("strategy", "steps/s", "kept at +2x", "kept at +5x", "busiest interface, %"),
               [(f"`{name}`", number(found[name, 0.0]["steps_per_s"], 0), number(found[name, 2.0]["kept"]),
                 number(found[name, 5.0]["kept"]), number(100 * found[name, 0.0]["busiest_share"], 1)) for name in WAYS])
    (generator,) = [row for row in rows if row["op"] == "generator"]
    page.text(f"The generator of smart groups takes {generator['us_per_request']:.2f} us of a core for a request, "
              f"{100 * generator['core_share']:.1f}% of one core for all of them. The paper's claim that it may share a "
              "worker's machine (section 4.2) holds there.")


def convergence(page):
    page.section("Fig. 19: iterations to a loss",
                 "Digits: steps of a rank until all images have loss 0.3, and what the models lose by groups. In the paper "
                 "AD-PSGD needs the fewest, then random groups, smart ones, and the static schedule.")
    found = page.strategies([*WAYS], "-n", RANKS, "--hosts", MACHINES, "--task", "digits", "--compute-ms", "2", "--straggler",
                            "none", seconds=4)
    page.table(("strategy", "steps to loss 0.3", "s to it", "times PS: paper", "here", "accuracy, %", "distance from the mean"),
               [(f"`{name}`", number(row.get("steps_to_loss"), 0), number(row.get("seconds_to_loss")),
                 number(WAYS[name][1]), _times(found, name, 0.0, "seconds_to_loss"),
                 number(100 * row["accuracy"]), number(row["consensus"], 4)) for (name, _), row in found.items()])


def fixed_time(page):
    page.section("Fig. 23: a negative result, accuracy after a fixed time",
                 "Without a slow worker the paper's smart groups make more iterations than an all-reduce in ten hours, and "
                 "end at a lower accuracy: a group's mean is not that of all.")
    found = page.strategies([*TEN_HOURS], "-n", RANKS, "--hosts", MACHINES, "--task", "digits", "--compute-ms", "10",
                            "--straggler", "none", seconds=5)
    page.table(("strategy", "iterations there", "top-1 there, %", "iterations here", "accuracy here, %", "loss here"),
               [(f"`{name}`", number(TEN_HOURS[name][0]), number(TEN_HOURS[name][1]), number(row["steps"] / RANKS, 0),
                 number(100 * row["accuracy"]), number(row["loss"], 3)) for (name, _), row in found.items()])


def sections(page):
    page.section("Fig. 17: section length",
                 "Steps between two exchanges. Fewer exchanges are faster, and need more steps to the same loss.")
    lengths = (1, 2, 4, 8, 16)
    found = page.strategies([f"local_sgd/section={length}" for length in lengths], "-n", RANKS, "--task", "digits",
                            "--compute-ms", "1", "--straggler", "none", seconds=3)
    page.table(("section", "steps/s", "steps to loss 0.3", "accuracy, %", "KiB a step"),
               [(name.partition("=")[2], number(row["steps_per_s"], 0), number(row.get("steps_to_loss"), 0),
                 number(100 * row["accuracy"]), number(row["bytes_per_step"] / 1024, 1)) for (name, _), row in found.items()])


def figure_16(page):
    page.section("Fig. 16: an all-reduce inside a machine and between machines",
                 "VGG-16's 553 MB, predicted for machines of 8 GPUs with one interface of 25 Gbit/s. The paper finds that "
                 "workers inside one machine, or one on each of several, are faster than several on each of several.")
    size = 553_000_000
    dense = page.predict("cloud-gpus", "allreduce", size, (2, 4, 8, 16, 32), "--algorithm", "ring")
    single = page.predict("ethernet", "allreduce", size, (4, 8, 12), "--algorithm", "ring")
    best = page.predict("cloud-gpus", "allreduce", size, (16, 32))
    page.table(("workers", "ms"),
               [(f"{n} on {max(1, n // 8)} machine{'s' if n > 8 else ''}", number(us / 1000, 0)) for n, us in dense.items()]
               + [(f"{n}, hierarchical", number(us / 1000, 0)) for n, us in best.items()]
               + [(f"{n}, one on a machine, 10 Gbit/s", number(us / 1000, 0)) for n, us in single.items()])


def groups(page):
    page.section("Laws of groups: do the models meet?",
                 "rho is the second largest eigenvalue of E[W^T W] (the paper's spectral condition: below 1). 16 ranks on 4 "
                 "machines. A division of the smart law makes two rounds, across machines and inside.")
    rows = [(law, page.run("graph", "--groups", law, "-n", RANKS, "--machines", MACHINES)[0])
            for law in ("pairs", "random", "smart", "static")]
    page.table(("law", "rho", "connected"), [(law, number(row["rho"], 3), "yes" if row["strongly_connected"] else "no")
                                           for law, row in rows])
    page.text("Fusing the groups {0, 3} and {3, 4} to {0, 3, 4} (section 4), ten thousand different groups that make "
              "nothing grow (the paper keeps at most 64 communicators), no deadlock on any graph, and the static schedule up "
              "to 16 machines of 16 ranks are properties that `tests/partial` proves.")


def report(page):
    speedups(page)
    stragglers(page)
    generator(page)
    many(page)
    convergence(page)
    fixed_time(page)
    sections(page)
    figure_16(page)
    groups(page)
    page.needs("Images/s, losses and accuracies of ResNets and the Transformer", "16 to 32 GPUs, ImageNet, News-Commentary")
