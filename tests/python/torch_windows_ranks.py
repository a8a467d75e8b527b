"""Checks of weft.torch's windows and their optimizers, for 4 ranks (test_torch_windows.py)."""

from __future__ import annotations

import warnings
from typing import Any, Callable, Dict, List

import networkx as nx
import numpy as np
import torch
import weft
import weft.torch as bf
from torch import nn
from torch_jobs import run_checks

DOUBLE = torch.float64


def raises(kind: type, call: Callable[[], Any], *words: str) -> None:
    try:
        call()
    except kind as error:
        for word in words:
            assert word in str(error), (word, str(error))
        return
    raise AssertionError(f"no {kind.__name__}")


def mine(*shape: int, dtype: torch.dtype = DOUBLE) -> torch.Tensor:
    return torch.full(shape, float(bf.rank()), dtype=dtype)


def is_all(tensor: torch.Tensor, value: float) -> bool:
    return bool(torch.allclose(tensor, torch.tensor(value, dtype=tensor.dtype), rtol=1e-6))


def mean(ranks: List[int]) -> float:
    return sum(ranks) / len(ranks)


def check_put_and_update() -> None:
    bf.init()
    for dtype in (torch.float16, torch.bfloat16, torch.float32, DOUBLE):
        x = mine(4, 5, dtype=dtype)
        assert bf.win_create(x, "x", zero_init=True)
        assert bf.get_current_created_window_names() == ["x"]
        assert bf.win_put(x, "x") and bf.win_fence("x")
        assert bf.get_win_version("x") == {each: 1 for each in bf.in_neighbor_ranks()}
        expected = mean([bf.rank(), *bf.in_neighbor_ranks()])
        copy = bf.win_update("x", clone=True)
        assert copy.dtype is dtype and torch.allclose(copy, torch.tensor(expected).to(dtype))
        assert is_all(x, bf.rank())
        before = x._version
        assert bf.win_update("x") is x and x._version > before
        assert torch.allclose(x, torch.tensor(expected).to(dtype))
        assert bf.get_win_version("x") == {each: 0 for each in bf.in_neighbor_ranks()}
        assert bf.win_free("x")


def check_older_names_and_win_lock() -> None:
    x = mine(3)
    bf.win_create(x, "x")
    with bf.win_lock("x"):
        bf.neighbor_win_put(torch.full((3,), 8.0, dtype=DOUBLE), "x")
        bf.win_fence()
        bf.win_wait(bf.neighbor_win_accumulate_nonblocking(torch.ones(3, dtype=DOUBLE), "x"))
        bf.win_fence()
    inside = len(bf.in_neighbor_ranks())
    expected = (bf.rank() + 9 * inside) / (inside + 1)
    assert is_all(bf.win_update("x"), expected)
    bf.barrier()
    bf.neighbor_win_get("x")
    bf.win_free()
    try:
        with bf.win_lock("x"):
            raise AssertionError("a window that does not exist")
    except ValueError as error:
        assert "x" in str(error)


def check_slots_begin_as_the_tensor() -> None:
    x = mine(3)
    bf.win_create(x, "x")
    assert is_all(bf.win_update("x"), bf.rank())
    bf.win_free()
    assert bf.get_current_created_window_names() == []


def check_weights_of_a_call() -> None:
    x = mine(6)
    bf.win_create(x, "x", zero_init=True)
    targets = bf.out_neighbor_ranks()
    y = torch.full((6,), 8.0, dtype=DOUBLE)
    bf.win_put(y, "x", self_weight=0.25, dst_weights={targets[0]: 0.5})
    assert is_all(y, 2)
    bf.win_fence()
    first = {each: min((each + d) % bf.size() for d in (1, 2)) for each in bf.in_neighbor_ranks()}
    senders = [each for each, target in first.items() if target == bf.rank()]
    bf.win_update(
        "x",
        self_weight=0.0,
        neighbor_weights={each: 1.0 for each in bf.in_neighbor_ranks()},
        reset=True,
        require_mutex=True,
    )
    assert is_all(x, 4 * len(senders))
    bf.barrier()
    wide = torch.full((6, 2), 3.0, dtype=DOUBLE)
    bf.win_accumulate(wide[:, 0], "x", self_weight=2.0, dst_weights=targets, require_mutex=True)
    assert is_all(wide[:, 0], 6) and is_all(wide[:, 1], 3)  # of a tensor that is not dense
    bf.win_accumulate(wide[:, 1], "x")
    bf.win_fence()
    x.zero_()
    assert is_all(bf.win_update_then_collect("x"), 6 * len(bf.in_neighbor_ranks()))
    bf.win_free("x")


def check_get() -> None:
    x = weft_tensor(7)
    x.fill_(float(bf.rank()))
    bf.win_create(x, "x", zero_init=True)
    bf.barrier()
    sources = bf.in_neighbor_ranks()
    assert bf.win_get("x", {each: 2.0 for each in sources}, require_mutex=True)
    assert bf.get_win_version("x") == {each: 1 for each in sources}
    bf.barrier()
    assert is_all(bf.win_update_then_collect("x"), bf.rank() + 2 * sum(sources))
    bf.barrier()
    x.fill_(float(bf.rank()))
    bf.barrier()
    handle = bf.win_get_nonblocking("x", sources[:1])
    while not bf.win_poll(handle):
        pass
    assert bf.win_wait(handle)
    raises(ValueError, lambda: bf.win_wait(handle), "not pending")
    bf.barrier()
    assert is_all(bf.win_update_then_collect("x"), bf.rank() + sources[0])
    bf.win_free("x")


def weft_tensor(count: int) -> torch.Tensor:
    return torch.from_numpy(weft.zeros(count, np.float64))


def check_the_weights_of_the_graph() -> None:
    size, rank = bf.size(), bf.rank()
    weights = np.array([[0.1 * (1 + j + 2 * i) for i in range(size)] for j in range(size)])
    bf.set_topology(nx.from_numpy_array(weights, create_using=nx.DiGraph), is_weighted=True)
    x = mine(5)
    bf.win_create(x, "x")
    bf.win_put(x, "x")
    bf.win_fence()
    assert is_all(bf.win_update("x"), float(sum(weights[j, rank] * j for j in range(size))))
    before = bf.load_topology()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert bf.set_topology(bf.RingGraph(size)) is False
    assert len(told) == 1 and "windows exist" in str(told[0].message)
    assert bf.load_topology() is before and bf.is_topo_weighted()
    bf.win_free("x")
    bf.set_topology()


def check_nonblocking_works_end_in_order() -> None:
    x = torch.ones(5000, dtype=DOUBLE)
    bf.win_create(x, "x", zero_init=True)
    handles = [bf.win_put_nonblocking(x, "x", self_weight=2.0) for _ in range(8)]
    handles.append(bf.win_accumulate_nonblocking(x, "x"))
    assert all(bf.win_wait(handle) for handle in handles)
    assert is_all(x, 2.0**8)
    bf.win_fence()
    collected = bf.win_update_then_collect("x")
    assert is_all(collected, 2.0**8 + len(bf.in_neighbor_ranks()) * (2.0**7 + 2.0**8))
    bf.win_free("x")


def check_associated_p() -> None:
    x = mine(50)
    bf.win_create(x, "before", zero_init=True)
    bf.turn_on_win_ops_with_associated_p()
    y = mine(50)
    bf.win_create(y, "after", zero_init=True)
    targets = bf.out_neighbor_ranks()
    part = 1 / (len(targets) + 1)
    for name, tensor in (("before", x), ("after", y)):
        assert bf.win_associated_p(name) == 1.0
        for _ in range(40):
            bf.win_accumulate(tensor, name, part, {each: part for each in targets}, True)
            bf.win_fence()
            bf.win_update_then_collect(name)
        p = bf.win_associated_p(name)
        assert is_all(tensor / p, 1.5)
        total = bf.allreduce(torch.tensor([p], dtype=DOUBLE), average=False)
        assert is_all(total, bf.size())
    bf.turn_off_win_ops_with_associated_p()
    p = bf.win_associated_p("after")
    bf.win_accumulate(y, "after", 0.5)
    bf.win_fence()
    bf.win_update_then_collect("after")
    assert bf.win_associated_p("after") == p
    bf.win_free()


def check_the_mutex() -> None:
    bf.set_topology(bf.FullyConnectedGraph(bf.size()))
    x = weft_tensor(1)
    bf.win_create(x, "x")
    number = torch.zeros(1, dtype=DOUBLE)
    window = weft.context().window("x")
    for _ in range(20):
        with bf.win_mutex("x", for_self=bf.rank() == 0, ranks=[0]):
            if bf.rank() == 0:
                x += 1
            else:
                window.write(0, window.read(0, number) + 1)
    bf.barrier()
    assert bf.rank() != 0 or is_all(x, 20 * bf.size())
    with bf.win_mutex("x"):  # of all out-neighbors
        raises(ValueError, lambda: bf.win_mutex("x").__enter__(), "locked by this rank already")
    bf.win_free("x")
    bf.set_topology()


def check_bad_calls() -> None:
    x = mine(4)
    raises(ValueError, lambda: bf.win_create(torch.ones(4, 4).t(), "x"), "not contiguous")
    raises(TypeError, lambda: bf.win_create([1.0], "x"), "tensor")
    raises(ValueError, lambda: bf.win_put(x, "none"), 'no window "none"')
    raises(ValueError, lambda: bf.win_free("none"), "none")
    raises(ValueError, lambda: bf.win_fence("none"), "none")
    bf.win_create(x, "x")
    raises(ValueError, lambda: bf.win_put(x, "x", dst_weights={bf.rank(): 1.0}), "out-neighbor")
    raises(ValueError, lambda: bf.win_put(x, "x", dst_weights={"a": 1.0}), "in place of a rank")
    raises(ValueError, lambda: bf.win_put(x, "x", dst_weights=[0, 0]), "twice")
    raises(ValueError, lambda: bf.win_get("x", {bf.rank(): 1.0}), "in-neighbor")
    raises(ValueError, lambda: bf.win_put(mine(5), "x"), "elements")
    raises(ValueError, lambda: bf.win_update("x", self_weight=1.0), "or neither")
    raises(ValueError, lambda: bf.win_update("x", neighbor_weights={}), "or neither")
    bf.win_free("x")


Start = Callable[[int], nn.Module]
MAKE: Dict[str, Callable[..., Any]] = {
    "put": bf.DistributedWinPutOptimizer,
    "get": bf.DistributedPullGetOptimizer,
    "push": bf.DistributedPushSumOptimizer,
}


def model_of(rank: int, width: int = 5) -> nn.Module:
    """Another start for each rank."""
    torch.manual_seed(100 + rank)
    return nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 2)).double()


def loss_of(model: nn.Module, rank: int, step: int) -> torch.Tensor:
    torch.manual_seed(1000 * step + rank)
    x = torch.randn(8, 4, dtype=DOUBLE)
    return ((model(x) - torch.stack((x.sum(1), x[:, 0]), 1)) ** 2).mean()


def flat_of(model: nn.Module) -> torch.Tensor:
    return torch.cat([each.detach().reshape(-1) for each in model.parameters()])


def set_flat(model: nn.Module, values: torch.Tensor) -> None:
    with torch.no_grad():
        sizes = [each.numel() for each in model.parameters()]
        for to, part in zip(model.parameters(), values.split(sizes)):
            to.copy_(part.view(to.shape))


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=0.01)


def in_step(optimizer: Any, model: nn.Module, steps: int, rank: int) -> None:
    """Steps in which all ranks have the others' newest parameters.

    The works of a round start with forward() and end in step(), so all ranks meet between the two:
    in backward(), and before forward().
    """
    for step in range(steps):
        optimizer.zero_grad()
        bf.barrier()
        loss = loss_of(model, rank, step)
        bf.win_fence()
        loss.backward()
        optimizer.step()


def averaged(parts: List[torch.Tensor]) -> List[torch.Tensor]:
    size = bf.size()
    return [sum(parts[(i - d) % size] for d in (0, 1, 2)) / 3 for i in range(size)]


def check_averaging_optimizers_are_those_of_the_formula() -> None:
    models = [model_of(rank) for rank in range(bf.size())]
    optimizers = [adam(model) for model in models]
    for step in range(4):
        for rank, model in enumerate(models):
            model.zero_grad()
            loss_of(model, rank, step).backward()
        for model, new in zip(models, averaged([flat_of(model) for model in models])):
            set_flat(model, new)
        for each in optimizers:
            each.step()
    for kind in ("put", "get"):
        model = model_of(bf.rank())
        own = adam(model)
        optimizer = MAKE[kind](own, model)
        assert isinstance(optimizer, torch.optim.Adam)
        in_step(optimizer, model, 4, bf.rank())
        torch.testing.assert_close(flat_of(model), flat_of(models[bf.rank()]))
        optimizer.unregister_window()
        raises(RuntimeError, optimizer.step, "unregister_window")
    assert bf.get_current_created_window_names() == []


def check_push_sum_is_that_of_the_formula() -> None:
    star = nx.star_graph(bf.size() - 1).to_directed()  # unequal degrees, so that p is not 1
    for start, give in ((nx.DiGraph(star), None), (None, 0.25)):
        bf.set_topology(start)
        size = bf.size()
        shares = np.zeros((size, size))  # column j: what rank j keeps and gives
        for j in range(size):
            targets = sorted(bf.load_topology().successors(j))
            targets = [each for each in targets if each != j]
            part = 1 / (len(targets) + 1) if give is None else give
            shares[targets, j] = part
            shares[j, j] = 1 - part * len(targets)
        models = [model_of(rank) for rank in range(size)]
        optimizers = [adam(model) for model in models]
        x, p = [flat_of(model) for model in models], np.ones(size)
        for step in range(4):
            for rank, model in enumerate(models):
                model.zero_grad()
                loss_of(model, rank, step).backward()
                before = flat_of(model)
                optimizers[rank].step()
                x[rank] = x[rank] + flat_of(model) - before
            x = [sum(shares[i, j] * x[j] for j in range(size)) for i in range(size)]
            p = shares @ p
            for rank, model in enumerate(models):
                set_flat(model, x[rank] / p[rank])
        model = model_of(bf.rank())
        optimizer = MAKE["push"](adam(model), model, window_prefix="push")
        assert bf.get_current_created_window_names() == ["push: float64"]
        assert optimizer.force_barrier
        if give is not None:
            optimizer.dst_weights = {each: give for each in bf.out_neighbor_ranks()}
            optimizer.self_weight = 1 - give * len(bf.out_neighbor_ranks())
        for step in range(4):
            optimizer.zero_grad()
            loss_of(model, bf.rank(), step).backward()
            bf.barrier()  # all have collected what was given in the step before
            optimizer.step()
        torch.testing.assert_close(flat_of(model), flat_of(models[bf.rank()]))
        assert abs(bf.win_associated_p("push: float64") - p[bf.rank()]) < 1e-12
        if give is not None:
            optimizer.self_weight = 0.9
            raises(ValueError, optimizer.step, "sum to 1")
        optimizer.unregister_window()
    bf.set_topology()


def check_local_steps() -> None:
    for kind, make in MAKE.items():
        model, alone = model_of(bf.rank()), model_of(bf.rank())
        optimizer = make(adam(model), model, num_steps_per_communication=3)
        optimizer.force_barrier = True
        plain = adam(alone)
        for step in range(3):
            for each, own in ((model, optimizer), (alone, plain)):
                own.zero_grad()
                loss_of(each, bf.rank(), step).backward()
                if step < 2:
                    own.step()
            if step < 2:
                torch.testing.assert_close(flat_of(model), flat_of(alone))
        bf.win_fence()
        before = flat_of(model)
        optimizer.step()
        plain.step()
        assert not torch.allclose(flat_of(model), flat_of(alone)), kind
        assert not torch.equal(before, flat_of(model)), kind
        bf.barrier()
        optimizer.unregister_window()


def check_weights_of_the_optimizers() -> None:
    sources, targets = bf.in_neighbor_ranks(), bf.out_neighbor_ranks()
    for kind in ("put", "get"):
        model = nn.Linear(3, 1, bias=False).double()
        nn.init.constant_(model.weight, float(bf.rank()))
        optimizer = MAKE[kind](torch.optim.SGD(model.parameters(), lr=0.5), model)
        if kind == "put":
            optimizer.dst_weights = {each: 2.0 for each in targets}
        else:
            optimizer.src_weights = {each: 2.0 for each in sources}
        optimizer.self_weight = 0.5
        optimizer.neighbor_weights = {sources[0]: 0.25}
        bf.barrier()
        loss = model(torch.ones(1, 3, dtype=DOUBLE)).sum()
        bf.win_fence()
        loss.backward()
        optimizer.step()
        assert is_all(model.weight.detach(), 0.5 * bf.rank() + 0.5 * sources[0] - 0.5)
        bf.barrier()
        optimizer.unregister_window()


def check_several_types_and_other_memory() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(4, 4).bfloat16()
            self.second = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(self.first(x.bfloat16()).float())

    for kind, make in MAKE.items():
        torch.manual_seed(bf.rank())
        model = Mixed()
        optimizer = make(torch.optim.SGD(model.parameters(), lr=0.0), model)
        assert len(bf.get_current_created_window_names()) == 2
        optimizer.force_barrier = True
        with torch.no_grad():
            for each in model.parameters():
                each.data = torch.full_like(each, float(bf.rank()))
        for _ in range(80):
            optimizer.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            bf.win_fence()
            optimizer.step()
        found = model.second.weight.detach()
        same = bf.allgather(found.reshape(1, -1))
        assert float((same - found.reshape(1, -1)).abs().max()) < 1e-4, (kind, same)
        if kind == "push":
            torch.testing.assert_close(found, torch.full_like(found, 1.5), rtol=1e-4, atol=0)
        optimizer.unregister_window()


if __name__ == "__main__":
    run_checks(dict(globals()))
