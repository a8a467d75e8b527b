"""Checks of the distributed optimizers, as a program for 4 ranks (test_torch_optimizers.py).

Each rank computes what all ranks should have by itself, with plain optimizers, and compares.
"""

from __future__ import annotations

import copy
from typing import Any, Callable, Dict, List

import torch
import weft
import weft.torch as bf
from torch import nn
from torch_jobs import run_checks

KINDS: Dict[str, Callable[..., Any]] = {
    "gradient": bf.DistributedGradientAllreduceOptimizer,
    "awc": bf.DistributedAdaptWithCombineOptimizer,
    "atc": bf.DistributedAdaptThenCombineOptimizer,
}
OPTIMIZERS: Dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.1),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
}
Batch = Callable[[int, int], torch.Tensor]


def model_of(rank: int, width: int = 5) -> nn.Module:
    """Another start for each rank."""
    torch.manual_seed(100 + rank)
    return nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 2)).double()


def batch_of(rank: int, step: int) -> torch.Tensor:
    torch.manual_seed(1000 * step + rank)
    return torch.randn(8, 4, dtype=torch.float64)


def loss_of(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return ((model(x) - torch.stack((x.sum(1), x[:, 0]), 1)) ** 2).mean()


def weights_of_graph() -> List[List[float]]:
    """w_ij: row i is what rank i applies."""
    size = bf.size()
    rows = []
    for rank in range(size):
        own, others = bf.GetRecvWeights(bf.load_topology(), rank)
        rows.append([own if j == rank else others.get(j, 0.0) for j in range(size)])
    return rows


def combine(models: List[nn.Module], weights: List[List[float]]) -> None:
    with torch.no_grad():
        for parts in zip(*[list(model.parameters()) for model in models]):
            old = [part.clone() for part in parts]
            for i, part in enumerate(parts):
                part.copy_(sum(w * each for w, each in zip(weights[i], old)))


def reference(
    kind: str, optimizer: str, steps: int, weights: Any = None, start: Any = model_of
) -> nn.Module:
    """This rank's model after some steps, computed without communication."""
    models = [start(rank) for rank in range(bf.size())]
    optimizers = [OPTIMIZERS[optimizer](model.parameters()) for model in models]
    weights = weights or (lambda step: weights_of_graph())
    mean = [[1.0 / bf.size()] * bf.size()] * bf.size()
    for step in range(steps):
        for rank, model in enumerate(models):
            model.zero_grad()
            loss_of(model, batch_of(rank, step)).backward()
        if kind == "gradient":
            holders = [copy.deepcopy(model) for model in models]
            for holder, model in zip(holders, models):
                for to, each in zip(holder.parameters(), model.parameters()):
                    to.data = each.grad.clone()
            combine(holders, mean)
            for holder, model in zip(holders, models):
                for each, to in zip(holder.parameters(), model.parameters()):
                    to.grad = each.detach()
        if kind == "awc":
            combine(models, weights(step))
        for each in optimizers:
            each.step()
        if kind == "atc":
            combine(models, weights(step))
    return models[bf.rank()]


def same(model: nn.Module, expected: nn.Module, what: Any = "") -> None:
    for (name, found), wanted in zip(model.named_parameters(), expected.parameters()):
        torch.testing.assert_close(
            found, wanted, rtol=1e-9, atol=1e-12, msg=lambda text: f"{what} {name}: {text}"
        )


def train(model: nn.Module, optimizer: Any, steps: int) -> None:
    for step in range(steps):
        optimizer.zero_grad()
        loss_of(model, batch_of(bf.rank(), step)).backward()
        optimizer.step()


def raises(kind: type, call: Callable[[], Any], *words: str) -> None:
    try:
        call()
    except kind as error:
        for word in words:
            assert word in str(error), (word, str(error))
        return
    raise AssertionError(f"no {kind.__name__}")


def check_steps_are_those_of_the_formulas() -> None:
    bf.init()
    for kind, make in KINDS.items():
        for name, plain in OPTIMIZERS.items():
            model = model_of(bf.rank())
            own = plain(model.parameters())
            optimizer = make(own, model)
            assert isinstance(optimizer, type(own)) and optimizer.param_groups is own.param_groups
            train(model, optimizer, 3)
            same(model, reference(kind, name, 3), (kind, name))


def check_many_buckets() -> None:
    for kind, make in KINDS.items():
        model = model_of(bf.rank(), 30_000)
        assert sum(each.numel() for each in model.parameters()) * 8 > 1 << 20
        train(model, make(OPTIMIZERS["momentum"](model.parameters()), model), 2)
        same(model, reference(kind, "momentum", 2, start=lambda r: model_of(r, 30_000)), kind)


class Branches(nn.Module):
    """Parts that compute in another order on each rank: so their gradients come in another order."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        torch.manual_seed(rank)
        self.parts = nn.ModuleList(nn.Linear(4, 4_000, bias=False) for _ in range(6)).double()
        self.order = [(number * 5 + rank) % 6 for number in range(6)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        sums = torch.zeros(len(x), 2, dtype=x.dtype)
        for number in self.order:
            sums = sums + self.parts[number](x).view(len(x), -1, 2).mean(1)
        return sums


def check_gradients_that_come_in_another_order_on_each_rank() -> None:
    for kind in ("gradient", "atc"):
        for skips in (False, True):
            bf.set_skip_negotiate_stage(skips)
            model = Branches(bf.rank())
            optimizer = KINDS[kind](OPTIMIZERS["momentum"](model.parameters()), model)
            train(model, optimizer, 3)
            same(model, reference(kind, "momentum", 3, start=Branches), (kind, skips))
    bf.set_skip_negotiate_stage(False)


def check_weights_that_change_from_step_to_step() -> None:
    size, rank = bf.size(), bf.rank()

    def weights(step: int) -> List[List[float]]:
        hop = 2 ** (step % 2)
        rows = [[0.0] * size for _ in range(size)]
        for i in range(size):
            rows[i][i] = 0.5
            rows[i][(i - hop) % size] = 0.5
        return rows

    for kind in ("awc", "atc"):
        for check in (False, True):
            model = model_of(rank)
            optimizer = KINDS[kind](OPTIMIZERS["adam"](model.parameters()), model)
            optimizer.enable_topo_check = check
            for step in range(4):
                hop = 2 ** (step % 2)
                optimizer.self_weight = 0.5
                optimizer.src_weights = {(rank - hop) % size: 0.25}
                optimizer.dst_weights = {(rank + hop) % size: 2.0}
                optimizer.zero_grad()
                loss_of(model, batch_of(rank, step)).backward()
                optimizer.step()
            same(model, reference(kind, "adam", 4, weights), kind)


def check_types_of_communication() -> None:
    mean = [[1.0 / bf.size()] * bf.size()] * bf.size()
    alone = [[float(i == j) for j in range(bf.size())] for i in range(bf.size())]
    for kind in ("awc", "atc"):
        model = model_of(bf.rank())
        optimizer = KINDS[kind](
            OPTIMIZERS["momentum"](model.parameters()), model, bf.CommunicationType.allreduce
        )
        for step in range(4):
            optimizer.communication_type = (
                bf.CommunicationType.empty if step % 2 else bf.CommunicationType.allreduce
            )
            optimizer.zero_grad()
            loss_of(model, batch_of(bf.rank(), step)).backward()
            optimizer.step()
        expected = reference(kind, "momentum", 4, lambda step: alone if step % 2 else mean)
        same(model, expected, kind)
        raises(TypeError, lambda: setattr(optimizer, "communication_type", "allreduce"))
    old = bf.DistributedNeighborAllreduceOptimizer(OPTIMIZERS["sgd"](model.parameters()), model)
    assert old.communication_type is bf.CommunicationType.neighbor_allreduce


def check_least_squares_converges_to_one_solution() -> None:
    torch.manual_seed(3)
    solution = torch.randn(3, 1, dtype=torch.float64)
    torch.manual_seed(bf.rank())
    inputs = torch.randn(20, 3, dtype=torch.float64)
    targets = inputs @ solution  # one solution fits the data of all ranks
    for kind, make in KINDS.items():
        model = nn.Linear(3, 1, bias=False).double()
        nn.init.constant_(model.weight, float(bf.rank()))
        if kind == "gradient":
            bf.broadcast_parameters(model.state_dict(), root_rank=0)
        optimizer = make(torch.optim.SGD(model.parameters(), lr=0.1), model)
        for _ in range(300):
            optimizer.zero_grad()
            ((model(inputs) - targets) ** 2).mean().backward()
            optimizer.step()
        found = model.weight.detach().t()
        spread = (bf.allgather(found.t()) - bf.broadcast(found.t(), 0)).abs().max()
        assert (found - solution).abs().max() < 1e-8 and spread < 1e-8, (kind, found, spread)


def check_consensus_without_gradients() -> None:
    for kind in ("awc", "atc"):
        model = model_of(bf.rank())
        mean = bf.allreduce(model[0].weight.detach())
        optimizer = KINDS[kind](torch.optim.SGD(model.parameters(), lr=0.0), model)
        train(model, optimizer, 60)
        assert (model[0].weight - mean).abs().max() < 1e-9, kind


def check_gradients_that_add_up_over_several_passes() -> None:
    for kind, make in KINDS.items():
        model = model_of(bf.rank())
        optimizer = make(
            OPTIMIZERS["adam"](model.parameters()), model, num_steps_per_communication=4
        )
        for step in range(3):
            optimizer.zero_grad()
            for part in batch_of(bf.rank(), step).split(2):
                (loss_of(model, part) / 4).backward()
            optimizer.step()
        same(model, reference(kind, "adam", 3), kind)


def check_local_steps_between_communications() -> None:
    alone = [[float(i == j) for j in range(bf.size())] for i in range(bf.size())]
    for kind in ("awc", "atc"):
        model = model_of(bf.rank())
        optimizer = KINDS[kind](
            OPTIMIZERS["momentum"](model.parameters()), model, num_steps_per_communication=3
        )
        train(model, optimizer, 6)
        graph = weights_of_graph()
        expected = reference(
            kind, "momentum", 6, lambda step: graph if step % 3 == 2 else alone
        )
        same(model, expected, kind)


def check_misuse_is_an_error() -> None:
    model = model_of(bf.rank())
    plain = torch.optim.SGD(model.parameters(), lr=0.1)
    for make in KINDS.values():
        raises(ValueError, lambda: make(torch.optim.LBFGS(model.parameters()), model), "LBFGS")
        raises(ValueError, lambda: make(plain, nn.Linear(2, 2)), "4 parameters")
        raises(ValueError, lambda: make(plain, model, num_steps_per_communication=0), "0")
        raises(TypeError, lambda: make(plain, ["model"]), "str")
        numbers = nn.ParameterList([torch.ones(2, dtype=torch.complex64)])
        raises(
            ValueError,
            lambda: make(torch.optim.SGD(numbers.parameters(), lr=0.1), numbers),
            "complex64",
        )
        optimizer = make(torch.optim.SGD(model.parameters(), lr=0.1), model)
        raises(ValueError, lambda: make(optimizer, model), "distributed already")
        raises(RuntimeError, lambda: optimizer.add_param_group({"params": []}))
    for kind in ("gradient", "atc"):
        model = model_of(bf.rank())
        optimizer = KINDS[kind](torch.optim.SGD(model.parameters(), lr=0.1), model)
        x = batch_of(bf.rank(), 0)
        loss_of(model, x).backward()
        if kind == "gradient":
            raises(RuntimeError, optimizer.zero_grad, "zero_grad")
        raises(RuntimeError, lambda: loss_of(model, x).backward(), "num_steps_per_communication=1")
        optimizer.step()
        train(model, optimizer, 1)


def check_models_that_differ_are_an_error_on_all_ranks() -> None:
    for make in KINDS.values():
        model = model_of(bf.rank(), 5 + (bf.rank() == 2))
        raises(
            weft.Mismatch, lambda: make(torch.optim.SGD(model.parameters(), lr=0.1), model), "rank"
        )
    kinds = list(KINDS.values())
    model = model_of(0)
    raises(
        weft.Mismatch,
        lambda: kinds[bf.rank() % 2](torch.optim.SGD(model.parameters(), lr=0.1), model),
        "another optimizer",
    )


def check_step_twice_without_backward() -> None:
    for kind, make in KINDS.items():
        model = model_of(bf.rank())
        optimizer = make(torch.optim.SGD(model.parameters(), lr=0.1), model)
        train(model, optimizer, 1)
        optimizer.step()
        optimizer.zero_grad()
        optimizer.step()
        train(model, optimizer, 1)
        assert all(bool(each.isfinite().all()) for each in model.parameters()), kind


def check_a_synchronize_without_a_step() -> None:
    """The gradients are dropped; parameters that are combined then are combined again by step()."""
    mean = [[1.0 / bf.size()] * bf.size()] * bf.size()
    for kind in ("gradient", "awc"):
        for clears in ("optimizer", "model"):
            models = [model_of(rank) for rank in range(bf.size())]
            model = model_of(bf.rank())
            optimizer = KINDS[kind](torch.optim.SGD(model.parameters(), lr=0.1), model)
            for step in range(3):
                loss_of(model, 3 * batch_of(bf.rank(), step)).backward()
                optimizer.synchronize()
                (optimizer if clears == "optimizer" else model).zero_grad()
                loss_of(model, batch_of(bf.rank(), step)).backward()
                optimizer.step()
                model.zero_grad()
                if kind == "awc":
                    combine(models, weights_of_graph())
                for rank, each in enumerate(models):
                    each.zero_grad()
                    loss_of(each, batch_of(rank, step)).backward()
                if kind == "awc":
                    combine(models, weights_of_graph())
                gradients = [[p.grad.clone() for p in each.parameters()] for each in models]
                for rank, each in enumerate(models):
                    with torch.no_grad():
                        for number, p in enumerate(each.parameters()):
                            parts = [given[number] for given in gradients]
                            p -= 0.1 * (sum(parts) / bf.size() if kind == "gradient" else parts[rank])
            same(model, models[bf.rank()], (kind, clears))


def check_clipping_and_closures_and_schedulers() -> None:
    model, expected = model_of(0), model_of(0)
    optimizer = KINDS["gradient"](torch.optim.SGD(model.parameters(), lr=0.1), model)
    x = batch_of(0, 0)
    for skips in (False, True):
        optimizer.zero_grad()
        loss_of(model, x).backward()
        optimizer.synchronize()
        nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        if skips:
            with optimizer.skip_synchronize():
                optimizer.step()
        else:
            optimizer.step()
        expected.zero_grad()
        loss_of(expected, x).backward()
        nn.utils.clip_grad_norm_(expected.parameters(), 0.01)
        torch.optim.SGD(expected.parameters(), lr=0.1).step()
        same(model, expected)
    for kind, make in KINDS.items():
        model = model_of(bf.rank())
        plain = OPTIMIZERS["sgd"](model.parameters())
        optimizer = make(plain, model)
        calls: List[int] = []
        optimizer.register_step_post_hook(lambda *_: calls.append(1))
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=1.0)

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = loss_of(model, batch_of(bf.rank(), 0))
            loss.backward()
            return loss

        assert optimizer.step(closure) > 0
        scheduler.step()
        same(model, reference(kind, "sgd", 1), kind)
        assert len(calls) == 1


def check_an_optimizer_with_state_keeps_it() -> None:
    for kind, make in KINDS.items():
        model, expected = model_of(0), model_of(0)
        plain = OPTIMIZERS["momentum"](model.parameters())
        other = OPTIMIZERS["momentum"](expected.parameters())
        for number in range(4):
            optimizer = plain if number < 2 else make(plain, model) if number == 2 else optimizer
            for each, net in ((optimizer, model), (other, expected)):
                each.zero_grad()
                loss_of(net, batch_of(0, number)).backward()
                each.step()
        same(model, expected, kind)
        again = OPTIMIZERS["momentum"](model.parameters())
        again.load_state_dict(optimizer.state_dict())
        assert len(again.state) == 4


def check_parameters_that_get_no_gradient() -> None:
    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used = nn.Linear(4, 4).double()
            self.sometimes = nn.Linear(4, 4).double()
            self.frozen = nn.Linear(4, 4).double().requires_grad_(False)
            self.tied = nn.Linear(4, 4).double()
            self.tied.weight = self.used.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.tied(self.frozen(self.used(x)))
            return self.sometimes(y) if bf.rank() == 1 else y

    for kind, make in KINDS.items():
        torch.manual_seed(bf.rank())
        model = Branches()
        frozen = model.frozen.weight.clone()
        before = model.sometimes.weight.detach().clone()
        expected = bf.neighbor_allreduce(before)
        optimizer = make(torch.optim.SGD(model.parameters(), lr=0.1), model)
        model(batch_of(bf.rank(), 0)).sum().backward()
        optimizer.step()
        assert torch.equal(model.frozen.weight, frozen) and model.tied.weight is model.used.weight
        if kind == "gradient":
            assert not torch.equal(model.sometimes.weight, before)
        elif 1 not in (bf.rank(), *bf.in_neighbor_ranks()):
            torch.testing.assert_close(model.sometimes.weight.detach(), expected)
        model.frozen.requires_grad_(True)
        raises(RuntimeError, optimizer.step, "frozen")


def check_parameters_that_got_other_memory() -> None:
    for kind in ("awc", "atc"):
        model = model_of(bf.rank())
        optimizer = KINDS[kind](OPTIMIZERS["sgd"](model.parameters()), model)
        start = model_of(bf.rank())
        model[0].weight.data = start[0].weight.data.clone()
        for to, each in zip(model.parameters(), start.parameters()):
            to.data = each.data.clone()
        train(model, optimizer, 2)
        same(model, reference(kind, "sgd", 2), kind)
        model.float()
        x = batch_of(0, 0).float()
        raises(ValueError, lambda: loss_of(model, x).backward(), "float64", "float32")


def check_several_types_and_evaluation() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(4, 4).bfloat16()
            self.second = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(self.first(x.bfloat16()).float())

    for kind, make in KINDS.items():
        torch.manual_seed(bf.rank())
        model = Mixed()
        mean = bf.allreduce(model.second.weight.detach())
        more = {} if kind == "gradient" else {"communication_type": bf.CommunicationType.allreduce}
        optimizer = make(torch.optim.SGD(model.parameters(), lr=0.0), model, **more)
        model.eval()
        model(batch_of(0, 0))
        model.train()
        with torch.no_grad():
            model(batch_of(0, 0))
        model(batch_of(0, 0)).sum().backward()
        optimizer.step()
        if kind != "gradient":
            torch.testing.assert_close(model.second.weight.detach(), mean)


def check_an_optimizer_that_is_gone_does_nothing() -> None:
    for make in KINDS.values():
        model = model_of(bf.rank())
        optimizer = make(torch.optim.SGD(model.parameters(), lr=0.1), model)
        del optimizer
        loss_of(model, batch_of(0, 0)).backward()
        assert torch.equal(bf.allreduce(torch.ones(1)), torch.ones(1))
        copied = copy.deepcopy(model)
        copied(batch_of(0, 0))


def check_parameters_and_states_are_broadcast() -> None:
    rank = bf.rank()
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    for each in (model.state_dict(), list(model.named_parameters()), model.parameters()):
        with torch.no_grad():
            model[0].weight.fill_(float(rank))
        bf.broadcast_parameters(each, root_rank=2)
        assert bool((model[0].weight == 2).all())
    with torch.no_grad():
        model[0].weight.fill_(float(rank))
    bf.allreduce_parameters(model.named_parameters())
    assert bool((model[0].weight == 1.5).all())
    raises(ValueError, lambda: bf.broadcast_parameters(["x"], 0), "str")
    raises(ValueError, lambda: bf.broadcast_parameters(torch.ones(2), 0))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 * (rank + 1))
    if rank == 1:
        model(torch.randn(4, 3)).sum().backward()
        optimizer.step()
    bf.broadcast_optimizer_state(optimizer, root_rank=1)
    assert optimizer.param_groups[0]["lr"] == 0.2
    moments = optimizer.state[model[0].weight]["exp_avg"]
    assert torch.equal(bf.broadcast(moments, 1), moments) and bool((moments != 0).any())
    bf.broadcast_optimizer_state(torch.optim.SGD(model.parameters(), lr=0.1), root_rank=0)


def check_own_step_functions() -> None:
    model = model_of(bf.rank())
    optimizer = KINDS["atc"](torch.optim.SGD(model.parameters(), lr=0.05), model)

    def step(
        self: Any, parameter: torch.Tensor, gradient: torch.Tensor, group: Dict[str, Any]
    ) -> None:
        assert self is optimizer
        parameter.add_(gradient, alpha=-group["lr"])

    optimizer.register_step_function(step)
    train(model, optimizer, 2)
    same(model, reference("atc", "sgd", 2))


if __name__ == "__main__":
    run_checks(dict(globals()))
