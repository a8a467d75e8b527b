"""Process groups of the backend "weft": making, splitting and ending them, works, and errors."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from datetime import timedelta
from typing import Any, Callable

import pytest

torch = pytest.importorskip("torch")

sys.path.insert(0, os.path.dirname(__file__))

import torch.distributed as dist  # noqa: E402
from distributed_ranks import run_ranks  # noqa: E402

import weft  # noqa: E402


def subgroups() -> None:
    """Groups with common ranks, each with its own order of operations."""
    dist.init_process_group("weft")
    rank, size = dist.get_rank(), dist.get_world_size()
    groups = [dist.new_group([r, (r + 1) % size]) for r in range(size)]
    for first, group in enumerate(groups):
        if rank in (first, (first + 1) % size):
            x = torch.full((100,), float(rank))
            dist.all_reduce(x, group=group)
            assert x[0] == first + (first + 1) % size
            members = dist.get_process_group_ranks(group)
            y = torch.full((3,), float(rank))
            dist.broadcast(y, members[1], group=group)
            assert y[0] == members[1]
        else:
            assert group == dist.GroupMember.NON_GROUP_MEMBER
    mine = dist.new_group([rank], use_local_synchronization=True)
    x = torch.ones(4)
    dist.all_reduce(x, group=mine)
    assert x.tolist() == [1, 1, 1, 1]
    dist.destroy_process_group(mine)
    half = weft.torch.distributed.split_group(
        split_ranks=[[0, 1], list(range(2, size))], timeout=timedelta(seconds=30)
    )
    x = torch.ones(4)
    dist.all_reduce(x, group=half)
    assert x[0] == (2 if rank < 2 else size - 2)
    assert weft.torch.distributed.split_group(split_ranks=[[1]]) is None or rank == 1
    dist.barrier()
    dist.destroy_process_group()


def again() -> None:
    """A process may end its groups and make new ones, though torch's store keeps its keys."""
    for _ in range(3):
        dist.init_process_group("weft")
        x = torch.ones(3)
        dist.all_reduce(x)
        assert x[0] == dist.get_world_size()
        dist.destroy_process_group()
    dist.init_process_group("weft")
    with pytest.raises(ValueError):
        dist.init_process_group("weft")
    group = dist.group.WORLD
    dist.destroy_process_group()
    with pytest.raises(weft.Closed):
        group.allreduce([torch.ones(1)])


def works() -> None:
    dist.init_process_group("weft")
    rank, size = dist.get_rank(), dist.get_world_size()
    x = torch.ones(50_000)
    work = dist.all_reduce(x, async_op=True)
    future = work.get_future()
    assert work.wait() is True
    assert work.is_completed() and work.is_success() and work.exception() is None
    assert work.result()[0] is x and x[0] == size
    assert future.wait()[0] is x
    # In the order of the calls, without a wait between; tensors that nobody else holds.
    started = [dist.all_reduce(torch.full((1000,), float(i)), async_op=True) for i in range(30)]
    for i, each in enumerate(started):
        assert each.get_future().then(lambda done: done.value()[0][0].item()).wait() == i * size
    joint = dist.group.WORLD.allreduce_coalesced([torch.ones(3), torch.ones(4)])
    assert [len(each) for each in joint.get_future().wait()] == [3, 4]
    assert joint.is_completed() and joint.exception() is None
    # is_completed() tells the truth about outputs that are copied.
    strided = torch.ones(2, 5000).t()
    work = dist.all_reduce(strided, async_op=True)
    while not work.is_completed():
        os.sched_yield()
    assert strided[3, 1] == size
    # A wait that ends before the operation.
    if rank == 0:
        late = dist.irecv(torch.zeros(4), 1)
        with pytest.raises(weft.TimedOut):
            late.wait(timedelta(milliseconds=50))
        assert not late.is_completed() and late.exception() is None
        with pytest.raises(RuntimeError):
            late.result()
        dist.barrier()
        late.wait()
        assert late.result()[0].tolist() == [5, 5, 5, 5]
        assert late._source_rank() == 1
    else:
        dist.barrier()
        if rank == 1:
            dist.send(torch.full((4,), 5.0), 0)
    # Calls from another thread.
    answer = []
    thread = threading.Thread(target=lambda: answer.append(sum_of_ones()))
    thread.start()
    thread.join(30)
    assert answer == [size]
    dist.destroy_process_group()


def sum_of_ones() -> float:
    x = torch.ones(3)
    dist.all_reduce(x)
    return x[0].item()


def bad_arguments() -> None:
    """Each raises before anything moves, so the group goes on."""
    dist.init_process_group("weft")
    rank, size = dist.get_rank(), dist.get_world_size()
    group = dist.group.WORLD

    def refuses(error: Any, text: str, call: Callable[..., Any], *arguments: Any) -> None:
        with pytest.raises(error, match=text):
            call(*arguments)

    refuses(TypeError, "on meta", dist.all_reduce, torch.ones(3, device="meta"))
    refuses(TypeError, "sparse", dist.broadcast, torch.ones(3).to_sparse(), 0)
    refuses(TypeError, "float8", dist.all_reduce, torch.ones(3).to(torch.float8_e4m3fnuz))
    refuses(ValueError, "average of torch.int64", dist.all_reduce, torch.ones(3).long(),
            dist.ReduceOp.AVG)  # fmt: skip
    refuses(ValueError, "bit_and", dist.all_reduce, torch.ones(3), dist.ReduceOp.BAND)
    refuses(ValueError, "sum of torch.bool", dist.all_reduce, torch.ones(3).bool())
    refuses(ValueError, "ranks give", dist.all_gather_into_tensor, torch.ones(3), torch.ones(2))
    refuses(TypeError, "float64", dist.all_gather_into_tensor, torch.ones(2 * size).double(),
            torch.ones(2))  # fmt: skip
    refuses(ValueError, "tensors for", group.allgather, [[torch.ones(2)] * (size + 1)],
            [torch.ones(2)])  # fmt: skip
    refuses(ValueError, "cannot be cut", dist.all_to_all_single, torch.ones(size + 1),
            torch.ones(size + 1))  # fmt: skip
    refuses(ValueError, "do not sum", group.alltoall_base, torch.ones(size), torch.ones(size),
            [1] * size, [3] * size)  # fmt: skip
    refuses(ValueError, "another rank", group.send, [torch.ones(2)], rank)
    refuses(ValueError, "rank", group.broadcast, [torch.ones(2)], size)
    refuses(RuntimeError, "meta", group._get_backend, torch.device("meta"))
    for count in (2, 300):
        if rank == 0:
            dist.send(torch.ones(count), 1, tag=3)
        elif rank == 1:  # the message is lost, and the group goes on
            refuses(weft.Mismatch, f"rank 0 has {count} elements of f32, not 3 of f64",
                    lambda: dist.recv(torch.ones(3).double(), 0, tag=3))  # fmt: skip
    assert sum_of_ones() == size
    dist.destroy_process_group()


def dies() -> Any:
    """Rank 1 dies in the middle; the others learn it by its number, soon."""
    dist.init_process_group("weft")
    assert sum_of_ones() == dist.get_world_size()
    if dist.get_rank() == 1:
        os._exit(3)
    begin = time.monotonic()
    with pytest.raises(weft.PeerDied) as caught:
        while True:
            dist.all_reduce(torch.ones(10))
    assert caught.value.rank == 1
    with pytest.raises(weft.Error):
        dist.barrier()
    seconds = time.monotonic() - begin
    dist.destroy_process_group()
    return seconds


def dies_in_future() -> None:
    dist.init_process_group("weft")
    dist.barrier()
    if dist.get_rank() == 1:
        os._exit(3)
    work = dist.all_reduce(torch.ones(10), async_op=True)
    with pytest.raises(RuntimeError, match="PeerDied: rank 1"):
        work.get_future().wait()
    assert isinstance(work.exception(), weft.PeerDied)
    assert work.is_completed() and not work.is_success()
    dist.destroy_process_group()


def dies_under_ddp() -> None:
    dist.init_process_group("weft")
    wrapped = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    wrapped(torch.ones(2, 4)).sum().backward()
    if dist.get_rank() == 1:
        os._exit(3)
    with pytest.raises(RuntimeError, match="PeerDied: rank 1"):
        while True:
            wrapped(torch.ones(2, 4)).sum().backward()
    dist.destroy_process_group()


def is_late() -> None:
    """Rank 1 does not come to an operation within the group's timeout."""
    dist.init_process_group("weft", timeout=timedelta(seconds=2))
    store = dist.group.WORLD.get_group_store()
    if dist.get_rank() == 0:
        with pytest.raises(weft.TimedOut):
            dist.all_reduce(torch.ones(3))
        store.set("end", "")
    else:
        store.wait(["end"], timedelta(seconds=30))
    dist.destroy_process_group()


def bounded_barriers() -> None:
    dist.init_process_group("weft")
    rank = dist.get_rank()
    weft.torch.distributed.monitored_barrier(timeout=timedelta(seconds=30))
    if rank != 1:
        with pytest.raises(weft.TimedOut, match="rank 1 ") as caught:
            weft.torch.distributed.monitored_barrier(
                timeout=timedelta(seconds=1), wait_all_ranks=True
            )
        assert caught.value.rank == 1
    dist.barrier(timeout=timedelta(seconds=30))  # the group is not hurt
    store = dist.group.WORLD.get_group_store()
    if rank == 0:
        with pytest.raises(weft.TimedOut):
            dist.barrier(timeout=timedelta(milliseconds=100))
        store.set("end", "")
    store.wait(["end"], timedelta(seconds=30))
    if rank != 0:
        dist.barrier()
    dist.barrier()  # the operation that rank 0 left has ended after all
    dist.destroy_process_group()


def never_comes() -> None:
    """A rank that does not join is named."""
    if os.environ["RANK"] == "1":
        return
    with pytest.raises(weft.TimedOut, match="rank 1 ") as caught:
        dist.init_process_group("weft", timeout=timedelta(seconds=1))
    assert caught.value.rank == 1


def waits_in_callbacks() -> None:
    """A callback of a future waits for a future whose callback waits for a future."""
    dist.init_process_group("weft")
    store, rank = dist.distributed_c10d._get_default_store(), dist.get_rank()

    def doubled(x: Any, times: int) -> Any:
        def again(done: Any) -> Any:
            return done.value()[0] if times == 1 else doubled(done.value()[0], times - 1).wait()

        if rank == 0:  # begins when rank 1 has a future of an operation under way
            store.wait([f"asked {times}"])
        future = dist.all_reduce(x, async_op=True).get_future().then(again)
        if rank == 1:
            store.set(f"asked {times}", "")
        return future

    assert doubled(torch.ones(3), 4).wait().tolist() == [16, 16, 16]
    dist.barrier()
    dist.destroy_process_group()


def leaves_without_destroying() -> None:
    dist.init_process_group("weft")
    dist.all_reduce(torch.ones(3))
    dist.irecv(torch.ones(3), 1 - dist.get_rank())  # pending at the end of the interpreter


def leaves_while_a_callback_waits() -> None:
    """For an operation that ends with its group alone, when the interpreter ends."""
    dist.init_process_group("weft")
    peer, begun = 1 - dist.get_rank(), threading.Event()

    def wait(_: Any) -> None:
        begun.set()
        never.wait()

    dist.irecv(torch.ones(3), peer).get_future().then(wait)
    never = dist.irecv(torch.ones(3), peer).get_future()
    dist.barrier()  # then() calls wait() itself if the operation has ended before
    dist.send(torch.ones(3), peer)
    assert begun.wait(60)


class Ended:
    """The handle of an operation that is done. Its wait() returns when `count` threads have called it."""

    def __init__(self, count: int) -> None:
        self._all_wait = threading.Barrier(count)

    def test(self) -> bool:
        return True

    def wait(self, timeout: Any = None) -> None:
        self._all_wait.wait(60)


def ways_to_look(way: str, finish: Callable[[], None]) -> Any:
    """Two functions that return when an operation's output is written, which finish() does."""
    from weft.torch import handles
    from weft.torch._tensors import Once
    from weft.torch._work import JointWork, WeftWork

    if way == "synchronize":
        output = torch.zeros(1)
        handle = handles.add(Ended(2), lambda: output, None, Once(finish, [output]))  # type: ignore[arg-type]
        return [lambda: handles.synchronize(handle)] * 2
    work: Any = WeftWork(Ended(1), [torch.zeros(1)], finish)  # type: ignore[arg-type]
    joint = JointWork([work])
    looks = {
        "wait": work.wait,
        "is_completed": work.is_completed,
        "is_success": work.is_success,
        "result": work.result,
        "future": lambda: work.get_future().wait(),
        "joint": joint.wait,
        "joint_future": lambda: joint.get_future().wait(),
    }
    return [work.wait, looks[way]]


@pytest.mark.parametrize(
    "way",
    ["wait", "is_completed", "is_success", "result", "future", "joint", "joint_future", "synchronize"],
)
def test_nobody_hears_of_the_end_before_the_output_is_written(way: str) -> None:
    writing, may_write, returned = threading.Event(), threading.Event(), threading.Event()
    written = []

    def finish() -> None:
        writing.set()
        assert may_write.wait(60)
        written.append(True)

    seen = []

    def look(call: Callable[[], Any]) -> None:
        call()
        seen.append(bool(written))
        returned.set()

    looks = [threading.Thread(target=look, args=(call,)) for call in ways_to_look(way, finish)]
    looks[0].start()
    if way != "synchronize":  # there the first one waits for the second
        assert writing.wait(60)
    looks[1].start()
    assert writing.wait(60)
    assert not returned.wait(0.1)
    may_write.set()
    for each in looks:
        each.join(60)
    assert seen == [True, True] and written == [True]


def test_groups_of_some_ranks() -> None:
    run_ranks(4, subgroups)


@pytest.mark.parametrize("size", [1, 2])
def test_groups_can_be_made_again(size: int) -> None:
    run_ranks(size, again)


@pytest.mark.parametrize("case", [works, bad_arguments, bounded_barriers],
                         ids=lambda c: c.__name__)
def test_works_and_errors(case: Callable[[], None]) -> None:
    run_ranks(3, case)


@pytest.mark.parametrize("case", [dies, dies_in_future, dies_under_ddp], ids=lambda c: c.__name__)
def test_a_dead_rank_is_named(case: Callable[[], Any]) -> None:
    seconds = run_ranks(3, case, lost=(1,))
    if case is dies:
        assert max(seconds[0], seconds[2]) < 10


@pytest.mark.parametrize("case", [is_late, never_comes, waits_in_callbacks, leaves_without_destroying,
                                  leaves_while_a_callback_waits], ids=lambda c: c.__name__)
def test_every_wait_ends(case: Callable[[], None]) -> None:
    run_ranks(2, case)


# A script of torch's, and one of BlueFog's and Horovod's whose rank 1 ends in its first life, so that
# torchrun starts all ranks again.
SCRIPTS = {
    "process group": """
        import torch, torch.distributed as dist
        import weft.torch
        dist.init_process_group('weft')
        x = torch.ones(3)
        dist.all_reduce(x)
        assert x.tolist() == [2, 2, 2]
        dist.destroy_process_group()
        """,
    "init()": """
        import os, torch
        import weft, weft.horovod as hvd, weft.torch as bf
        hvd.init()
        bf.init()
        assert (bf.rank(), bf.size(), bf.local_size()) == (int(os.environ["RANK"]), 2, 2)
        assert hvd.allreduce(torch.ones(3), op=hvd.Sum).tolist() == [2, 2, 2]
        assert bf.allreduce(torch.full((3,), float(bf.rank()))).tolist() == [0.5] * 3
        if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and bf.rank() == 1:
            os._exit(1)
        bf.barrier()
        """,
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_torchrun_needs_no_variable(name: str, tmp_path: Any) -> None:
    script = tmp_path / "job.py"
    script.write_text(textwrap.dedent(SCRIPTS[name]))
    environment = {k: v for k, v in os.environ.items() if not k.startswith("WEFT_")}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*command, "--max-restarts=1", str(script)], env=environment, timeout=120, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
