"""Horovod with a response cache and groups (Romero et al. 2022): what it costs to agree on names, and what fusing them saves."""

from figures import plot
from papers.page import number

TITLE = "Horovod: caching and grouping"
REFERENCE = ("Romero, Yin, Laanait, Xie, Young, Treichler, Starchenko, Borisevich, Sergeev, Matheson: Accelerating Collective "
             "Communication in Data Parallel Training across Deep Learning Frameworks, NSDI 2022.")

# Bytes of float32 gradients, and milliseconds that a V100 computes for a batch: of the latter the paper says nothing.
MODELS = {"EfficientNet-B0": (21_000_000, 110), "ResNet50": (102_000_000, 180), "VGG19": (575_000_000, 330)}
STEMDL = 880_000_000  # bytes an iteration
BACKWARD = 2 / 3      # of the computation: an allreduce can travel beside it


def iteration_ms(compute, us):
    """The last tenth of the gradients has nothing to hide behind."""
    ms = us / 1000
    return max(compute + 0.1 * ms, compute * (1 - BACKWARD) + ms)


def agreement(page):
    page.section("Fig. 4 and 7: agreeing on names, with and without the response cache",
                 "161 names, simulated with 5 us on the way and 1 us of a processor for each end of a message. In the paper "
                 "each rank tells the coordinator, which costs a message a rank, and the cache makes that an allreduce of "
                 "bits. In Weft names that are new travel along a tree already, so the cache saves less.")
    rows = [row for row in page.tool("bench_negotiate") if row["tensors"] == 161]
    page.table(("ranks", "new names, us", "cached, us", "ratio", "bytes a rank", "messages to rank 0"),
               [(number(row["ranks"], 0), number(row["uncached_us"], 0), number(row["cached_us"], 0),
                 number(row["uncached_us"] / row["cached_us"]), number(row["control_bytes"], 0),
                 number(row["coordinator_messages"], 0)) for row in rows])
    page.picture("agreement", "Agreeing on 161 names", lambda path: plot.curves(
        path, "Agreeing on 161 names, simulated", "ranks", "us",
        {"new names": [(row["ranks"], row["uncached_us"]) for row in rows],
         "response cache": [(row["ranks"], row["cached_us"]) for row in rows]}))
    return rows[-1]


def step_at_6000(page, last):
    page.section("Fig. 6: a training step on 6,000 GPUs",
                 "STEMDL, 880 MB of gradients, predicted for machines of six GPUs with two ports of 100 Gbit/s. The paper gains "
                 "1.64x by the cache and 1.97x with groups over a Horovod whose coordinator hears every rank. Its step's "
                 "computing time is not given; one second is taken. Four cycles an iteration agree on the names. What the "
                 "paper's coordinator takes to read 161 names of each rank is not in the first row, and it is most of what "
                 "the cache saves there.")
    us = page.predict("summit", "allreduce", STEMDL, (6000,), "--algorithm", "hierarchical")[6000]
    compute, cycles = 1000.0, 4
    plain = iteration_ms(compute, us)
    central = plain + cycles * 6000 * 2 / 1000  # 1 us of the coordinator's processor for a message, both ways
    page.table(("way", "ms a step", "beside a central coordinator", "paper"),
               [("a coordinator that hears each rank, 1 us a message", number(central, 0), "1.00", "1.00"),
                ("Weft, new names in each step", number(plain + cycles * last["uncached_us"] / 1000, 0),
                 number(central / (plain + cycles * last["uncached_us"] / 1000)), "—"),
                ("Weft, cached", number(plain + cycles * last["cached_us"] / 1000, 0),
                 number(central / (plain + cycles * last["cached_us"] / 1000)), "1.64"),
                ("Weft, one group: one cycle", number(plain + last["cached_us"] / 1000, 0),
                 number(central / (plain + last["cached_us"] / 1000)), "1.97")])


def histogram(page):
    page.section("Fig. 2: sizes of fused messages",
                 "ResNet-50's 161 gradients in one iteration with 10 ms of computing, on two ranks here: how many messages have "
                 "so many names. The paper's cycles make sizes that vary from iteration to iteration; a group has the same "
                 "messages always.")
    rows = {row["way"]: row for row in page.run("perf", "named", "-n", "2", "--compute", "10", "--seconds",
                                                "0.2" if page.quick else "1.5")}
    ways = [way for way in ("names", "group", "neighbors", "unfused") if way in rows]
    bins = max(len(rows[way]["batches_by_names"]) for way in ways)
    used = [index for index in range(bins) if any(rows[way]["batches_by_names"][index] > 0.01 for way in ways)]
    page.table(("names in a message", *(way for way in ways)),
               [(f"{2 ** index} to {2 ** (index + 1) - 1}" if index else "1",
                 *(number(rows[way]["batches_by_names"][index], 1) for way in ways)) for index in used])
    page.table(("submitted as", "messages", "cycles", "us to submit one", "ms", "ms in one tensor"),
               [(way, number(rows[way]["batches"], 1), number(rows[way]["cycles"], 1), number(rows[way]["submit_us"]),
                 number(rows[way]["p50_us"] / 1000, 1), number(rows[way]["one_p50_us"] / 1000, 1)) for way in ways])


def groups(page, last):
    page.section("Fig. 8: the number of groups",
                 "ResNet50's and VGG19's gradients on 768 GPUs, predicted as above: cut into equal groups, each of which is "
                 "agreed on and reduced as soon as the backward pass has made it, one after the other. The paper gains 5% with "
                 "5 or 10 groups for ResNet50 in TensorFlow, beside no groups, and less in PyTorch. One group leaves the whole "
                 "exchange for the end of the step. In the prediction many groups cost little, because ranks agree on a "
                 f"name that they know in {number(last['cached_us'], 0)} us.")
    counts = (1, 2, 5, 10, 20, 50, 161)
    times = {}
    for name in ("ResNet50", "VGG19"):
        size, compute = MODELS[name]
        for count in counts:
            us = page.predict("summit", "allreduce", size // count, (768,), show=count == 10)[768]
            end = 0.0
            for group in range(1, count + 1):
                made = compute * (1 - BACKWARD + BACKWARD * group / count)
                end = max(end, made) + (us + last["cached_us"]) / 1000
            times[name, count] = end
    page.table(("groups", *(f"{name}, ms a step" for name in ("ResNet50", "VGG19")), "ResNet50, speedup over one group", "VGG19"),
               [(number(count, 0), *(number(times[name, count], 1) for name in ("ResNet50", "VGG19")),
                 *(number(times[name, 1] / times[name, count], 3) for name in ("ResNet50", "VGG19"))) for count in counts])


def overlap(page):
    page.section("Section 4.3.2: how much of the allreduce is beside the computation",
                 "The same tensors on two ranks here, by name: an iteration without computing is the allreduce alone, and what "
                 "one with computing takes longer than the computing was not hidden. The paper has more than 95% for Horovod "
                 "and torch, on GPUs, whose allreduce takes no time from the computation. Here the computation keeps each "
                 "of the two cores busy, and the same cores do the copying: nothing can hide.")
    alone, beside = ({row["way"]: row for row in page.run("perf", "named", "-n", "2", "--compute", compute, "--seconds",
                                                          "0.2" if page.quick else "1.5")} for compute in ("0", "60"))
    page.table(("submitted as", "alone, ms", "with 60 ms of computing, ms", "hidden, %"),
               [(way, number(row["p50_us"] / 1000, 1), number(beside[way]["p50_us"] / 1000, 1),
                 number(100 * min(1, max(0, 1 - (beside[way]["p50_us"] / 1000 - 60) / (row["p50_us"] / 1000))), 0))
                for way, row in alone.items() if way in ("names", "group", "neighbors")])
    page.needs("Section 4.3.2: more than 95% of the allreduce hidden", "GPUs that compute, so that cores are free for the network")


def scaling(page):
    page.section("Fig. 10 and 11: scaling efficiency",
                 "Predicted for machines of six GPUs with two ports of 100 Gbit/s. Taken are " +
                 ", ".join(f"{ms} ms of computing for {name}" for name, (_, ms) in MODELS.items()) + " and 1,000 ms for "
                 "STEMDL, two thirds of it backward, and that a tenth of the gradients has nothing to hide behind. The paper "
                 "has 0.93 and 0.96 for ResNet50 on 1,536 GPUs (TensorFlow, PyTorch) and 0.93 for STEMDL on 27,600.")
    ranks, rows = (6, 96, 768, 1536), []
    for name, (size, compute) in MODELS.items():
        us = page.predict("summit", "allreduce", size, ranks, show=name == "ResNet50")
        rows.append((name, "0.93 and 0.96" if name == "ResNet50" else "—",
                     *(number(compute / iteration_ms(compute, us[n])) for n in ranks), "—"))
    us = page.predict("summit", "allreduce", STEMDL, (6, 1536, 27600))
    rows.append(("STEMDL", "0.93", number(1000 / iteration_ms(1000, us[6])), "—", "—",
                 number(1000 / iteration_ms(1000, us[1536])), number(1000 / iteration_ms(1000, us[27600]))))
    page.table(("model", "paper", *(f"{n:,} GPUs" for n in ranks), "27,600"), rows)


def report(page):
    last = agreement(page)
    histogram(page)
    step_at_6000(page, last)
    groups(page, last)
    overlap(page)
    scaling(page)
    page.needs("Fig. 3 and 9: throughput and timing on Summit, and Fig. 8 measured", "768 to 6,000 V100 GPUs")
    page.needs("Fig. 7: BytePS beside Horovod", "GPUs and BytePS's servers")
