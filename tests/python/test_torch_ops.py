"""weft.torch's operations with BlueFog's names, on four ranks and on two machines of two ranks."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("networkx")

sys.path.insert(0, os.path.dirname(__file__))

from conftest import as_processes  # noqa: E402
from torch_jobs import as_tests  # noqa: E402

outcome, test_on_four_ranks, test_the_job_ends_well = as_tests("torch_ops_ranks.py")


def test_two_machines() -> None:
    done = as_processes(
        4,
        """
        import os
        os.environ["BLUEFOG_NODES_PER_MACHINE"] = "0"
        import torch, weft.torch as bf
        try:
            bf.init()
            raise SystemExit("machines of no ranks")
        except ValueError as error:
            assert "BLUEFOG_NODES_PER_MACHINE=0" in str(error)
        os.environ["BLUEFOG_NODES_PER_MACHINE"] = "2"
        bf.init()
        assert "WEFT_HOST" not in os.environ
        rank, machine = bf.rank(), bf.machine_rank()
        assert (bf.local_size(), bf.machine_size(), bf.local_rank()) == (2, 2, rank % 2)
        x = torch.full((7,), float(rank))
        assert bf.allreduce(x, is_hierarchical_local=True)[0] == 2 * machine + 0.5
        ring = bf.RingGraph(2)
        assert bf.set_machine_topology(ring) and bf.set_machine_topology(ring)
        assert bf.load_machine_topology() is ring and not bf.is_machine_topo_weighted()
        assert bf.in_neighbor_machine_ranks() == bf.out_neighbor_machine_ranks() == [1 - machine]
        assert bf.hierarchical_neighbor_allreduce(x)[0] == 1.5
        moved = bf.hierarchical_neighbor_allreduce(
            x,
            self_weight=0.0,
            src_machine_weights={1 - machine: 0.5},
            dst_machine_weights={1 - machine: 2.0},
        )
        assert moved[0] == 2 * (1 - machine) + 0.5
        pulled = bf.hierarchical_neighbor_allreduce(
            x, self_weight=1.0, src_machine_weights={1 - machine: 1.0}
        )
        assert pulled[0] == 3.0
        for wrong in ({"self_weight": 1.0}, {"dst_machine_weights": [1 - machine]}):
            try:
                bf.hierarchical_neighbor_allreduce(x, **wrong)
                raise AssertionError
            except ValueError as error:
                assert "src_machine_weights" in str(error)
        bf.shutdown()
        print("fine")
        """,
        limit_s=120,
    )
    assert done.returncode == 0 and done.stdout.count("fine") == 4, done.stdout + done.stderr


def test_the_timeline(tmp_path: Any) -> None:
    """BLUEFOG_TIMELINE: operations, blocking or not, activities of two threads, and an optimizer."""
    done = as_processes(
        2,
        """
        import json, os, threading
        import torch, weft.torch as bf
        assert not bf.timeline_start_activity("x", "NOTHING") and not bf.timeline_end_activity("x")
        bf.init()
        x = torch.ones(3)
        bf.allreduce(x, name="first")
        bf.wait(bf.neighbor_allreduce_nonblocking(x, name="second"))
        bf.wait(bf.allgather_nonblocking(x))
        bf.win_create(x, "window")
        bf.win_put(x, "window")
        bf.win_free()
        both = threading.Barrier(2)
        def act():
            with bf.timeline_context("row", "ACTIVITY"):
                both.wait()
        threads = [threading.Thread(target=act) for _ in range(2)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        model = torch.nn.Linear(3, 1, bias=False)
        optimizer = bf.DistributedAdaptWithCombineOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.1), model
        )
        for _ in range(2):  # the second step is not watched
            model(x).sum().backward()
            optimizer.step()
            optimizer.turn_off_timeline()
        optimizer.turn_on_timeline()
        rank = bf.rank()
        bf.shutdown()
        with open(f"{os.environ['BLUEFOG_TIMELINE']}{rank}.json") as file:
            events = json.load(file)
        rows = {each["pid"]: each["args"]["name"] for each in events if each["ph"] == "M"}
        seen = {}
        for each in events:
            if each["ph"] in "BX":
                seen.setdefault(rows[each["pid"]], []).append(each["name"])
        for row, kind in (("first", "ALLREDUCE"), ("second", "NEIGHBOR_ALLREDUCE"),
                          ("allgather.noname.0", "ALLGATHER")):
            assert sorted(seen[row]) == [f"ENQUEUE_{kind}", f"MPI_{kind}"], (row, seen)
        assert seen["window"][2:4] == ["ENQUEUE_WIN_PUT", "MPI_WIN_PUT"], seen
        assert {each["tid"] for each in events if rows[each["pid"]] == "row" and "tid" in each} == {1, 2}
        (weight,) = [row for row in seen if row.endswith(".weight")]
        assert seen[weight] == ["FORWARD", "GRADIENT COMPT."], seen
        assert sum(names.count("COMMUNICATE") for names in seen.values()) == 2, seen
        ends = [each["ph"] for each in events].count("E")
        assert ends == [each["ph"] for each in events].count("B")
        print("fine")
        """,
        limit_s=120,
        BLUEFOG_TIMELINE=str(tmp_path / "timeline"),
    )
    assert done.returncode == 0 and done.stdout.count("fine") == 2, done.stdout + done.stderr


def test_a_timeline_on_a_full_disk_ends_and_the_job_goes_on(tmp_path: Any) -> None:
    for rank in range(2):
        (tmp_path / f"full{rank}.json").symlink_to("/dev/full")
    done = as_processes(
        2,
        """
        import torch, weft.torch as bf
        bf.init()
        for _ in range(3):
            bf.wait(bf.neighbor_allreduce_nonblocking(torch.ones(3), name="x"))
        bf.shutdown()
        print("fine")
        """,
        limit_s=120,
        BLUEFOG_TIMELINE=str(tmp_path / "full"),
    )
    assert done.returncode == 0 and done.stdout.count("fine") == 2, done.stdout + done.stderr
    for rank in range(2):
        told = f"full{rank}.json ends here: No space left on device"
        assert done.stderr.count(told) == 1, done.stderr


def test_a_rank_alone() -> None:
    done = as_processes(
        1,
        """
        import torch, weft.torch as bf
        bf.init()
        x = torch.arange(5.0)
        for call in (bf.neighbor_allreduce, bf.allreduce, bf.allgather):
            assert torch.equal(call(x), x)
        assert torch.equal(bf.broadcast(x, 0), x) and bf.neighbor_allgather(x).shape == (0,)
        assert bf.in_neighbor_ranks() == []
        print("fine")
        """,
        limit_s=120,
    )
    assert done.returncode == 0 and "fine" in done.stdout, done.stdout + done.stderr
    assert done.stderr == ""
