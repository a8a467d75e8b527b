"""Part 12: prepared operations, and what was there before beside a build of the commit before them."""

import statistics

from figures.doors import BENCH
from figures.guest import kept_figures
from figures.runs import RANKS, at_least, at_most, rows_of, say_distance, show, size_text

CALL_ROUNDS = 5


def prepared_figures(runs, ranks):
    """In C++: the call and a run of the same operation take turns inside the program."""
    for operation in ("allreduce", "neighbor_allreduce"):
        rows = runs.perf(operation, "--prepared", "--ranks", str(ranks), "--sizes", "4,64,64K,1M", "--seconds", "1")
        say_distance(f"{operation}, {ranks} ranks", rows)
        for row in rows:
            least = 1.1 if row["bytes"] == 4 else 1.0 if row["bytes"] == 64 else 0.98
            what = f"{operation}, prepared, {ranks} ranks, {size_text(row['bytes'])}"
            at_least(what, row["prepared_speedup"], least, f"the call, {row['p50_us']:.2f} us")


def python_figures(runs, python):
    """Each round: `weft perf` in C++, then the same operation and writes of windows from Python."""
    cpp = [str(runs.weft), "perf", "allreduce", "--prepared", "--ranks", "2", "--sizes", "4", "--seconds", "0.5", "--json", "-"]
    more, writes = [], {}
    for _ in range(CALL_ROUNDS):
        base = rows_of(cpp)[0]["prepared_p50_us"]
        for row in rows_of([str(runs.weft), "run", "-n", "2", "--", python, str(BENCH / "prepared.py")]):
            if row["op"] == "allreduce":
                more.append(row["prepared_us"] - base)
            else:
                writes.setdefault(row["bytes"], []).append(row)
            runs.keep("bench/python/prepared.py", {"op": row["op"], "bytes": row["bytes"], "p50_us": row["call_us"],
                                                   "prepared_p50_us": row["prepared_us"], "peer_p50_us": row.get("nixl_us")})
    show("allreduce of 4 B, prepared, Python", f"+{statistics.median(more):.2f} us", "<= 1.5 us", "the same in C++",
         statistics.median(more) <= 1.5)
    for size, rows in writes.items():
        took = statistics.median(row["prepared_us"] for row in rows)
        at_least(f"write of {size_text(size)}, prepared, Python", statistics.median(r["call_us"] / r["prepared_us"] for r in rows),
                 1, f"the call; prepared {took:.2f} us")
        if "nixl_us" in rows[0]:
            at_least(f"write of {size_text(size)}, prepared, Python",
                     statistics.median(row["nixl_us"] / row["prepared_us"] for row in rows), 1, "NIXL's transfer")


def size_figures(runs):
    library, before = (weft.parent.parent / "lib" / "libweft.so" for weft in (runs.weft, runs.baseline))
    at_most("libweft.so", library.resolve().stat().st_size / before.resolve().stat().st_size, 1,
            f"the baseline's {before.resolve().stat().st_size / 1e6:.1f} MB")


def part_12(runs, _scratch):
    for ranks in RANKS:
        prepared_figures(runs, ranks)
    python_figures(runs, str(runs.weft.parent.parent / "python" / "bin" / "python"))
    if runs.baseline is None:
        print("# no --baseline DIR: nothing is held against the commit before this part", flush=True)
        return
    size_figures(runs)
    for ranks in RANKS:
        kept_figures(runs, runs.baseline, "shm", ranks)
    kept_figures(runs, runs.baseline, "ucx", 2)
