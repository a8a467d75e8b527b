"""Checks of the optimizers that train by a strategy, as a program for 4 ranks (test_torch_strategies.py)."""

from __future__ import annotations

import copy
from typing import Any, Callable, Dict, List

import torch
import torch_algorithms_checks
import weft
import weft.torch as bf
from torch import nn
from torch_jobs import run_checks
from torch_models import COUNT, RATE, Parabola, raises, train

FREE = ["ad_psgd", "prague", "prague:random", "canary", "canary:asynchronous"]
SECTIONS: Dict[str, Callable[..., Any]] = {
    "diloco": bf.DistributedDiLoCoOptimizer,
    "noloco": bf.DistributedNoLoCoOptimizer,
}


def by_strategy(name: str, steps: int, **options: Any) -> torch.Tensor:
    """The model after some steps of weft.Strategy."""
    x = torch.full((COUNT,), 5.0 - bf.rank(), dtype=torch.float64)
    with weft.Strategy(weft.init(), name, x, window_name="expected", **options) as strategy:
        for _ in range(steps):
            strategy.begin()
            strategy.step(x - bf.rank())
    return x


def check_sections_are_those_of_the_strategy() -> None:
    for name, make in SECTIONS.items():
        for options in ({"section": 4}, {"section": 1, "outer_rate": 0.5, "outer_momentum": 0.2}):
            model = Parabola()
            plain = torch.optim.SGD(model.parameters(), lr=RATE)
            optimizer = make(plain, model, **options)
            assert isinstance(optimizer, torch.optim.SGD)
            assert (model.x == 5).all()  # the model of rank 0
            train(model, optimizer, 10)
            optimizer.end()  # with a section that is shorter
            expected = by_strategy(name, 10, rate=RATE, **options)
            torch.testing.assert_close(model.x.detach(), expected, rtol=1e-9, atol=1e-12)


def check_a_section_keeps_the_state_of_its_optimizer() -> None:
    """AdamW on three layers of two types, against the formula of DiLoCo in one process."""

    def model_of() -> nn.Module:
        torch.manual_seed(7)
        return nn.Sequential(nn.Linear(4, 5).double(), nn.Tanh(), nn.Linear(5, 2).double())

    def loss_of(model: nn.Module, rank: int, step: int) -> torch.Tensor:
        torch.manual_seed(100 * step + rank)
        x = torch.randn(8, 4, dtype=torch.float64)
        return ((model(x) - x[:, :2]) ** 2).mean()

    def plain_of(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.AdamW(model.parameters(), lr=0.01)

    ranks = range(bf.size())
    models: List[Any] = [model_of() for _ in ranks]
    plains = [plain_of(each) for each in models]
    start = [each.detach().clone() for each in models[0].parameters()]
    momenta = [torch.zeros_like(each) for each in start]
    mine = model_of()
    optimizer = bf.DistributedDiLoCoOptimizer(plain_of(mine), mine, section=3)
    for step in range(9):
        optimizer.zero_grad()
        loss_of(mine, bf.rank(), step).backward()
        optimizer.step()
        for rank in ranks:
            plains[rank].zero_grad()
            loss_of(models[rank], rank, step).backward()
            plains[rank].step()
        if step % 3 == 2:
            with torch.no_grad():
                for s, m, parts in zip(start, momenta, zip(*[each.parameters() for each in models])):
                    d = sum(s - part for part in parts) / bf.size()
                    m.mul_(0.9).add_(d)
                    s.sub_(0.7 * (d + 0.9 * m))
                    for part in parts:
                        part.copy_(s)
        for found, expected in zip(mine.parameters(), models[bf.rank()].parameters()):
            torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
    optimizer.end()


def check_every_strategy_takes_its_own_steps() -> None:
    for name in weft.strategy_names():
        if name in FREE or name == "canary:bounded":  # whom it meets is chance
            continue
        model = Parabola()
        optimizer = bf.DistributedStrategyOptimizer(model, name, lr=RATE)
        train(model, optimizer, 12)
        optimizer.end()
        assert optimizer.counts()["steps"] == 12
        torch.testing.assert_close(
            model.x.detach(), by_strategy(name, 12, rate=RATE), rtol=1e-9, atol=1e-12
        )
    for name in FREE:
        model = Parabola()
        seed = None if name.startswith("canary") else 3
        optimizer = bf.DistributedStrategyOptimizer(model, name, lr=RATE, seed=seed)
        train(model, optimizer, 20 + bf.rank())
        optimizer.end()
        assert ((model.x > -0.5) & (model.x < 4)).all()


def check_models_of_several_types_and_frozen_parts() -> None:
    model = Parabola()
    model.other = Parabola(3, torch.float32)  # type: ignore[assignment]
    model.frozen = nn.Parameter(torch.full((2,), float(bf.rank())), requires_grad=False)
    x = 5.0
    for name in ("allreduce", "canary:bulk"):
        optimizer = bf.DistributedStrategyOptimizer(model, name, lr=RATE)
        for _ in range(4):
            optimizer.zero_grad()
            (model() + model.other()).backward()
            optimizer.step()
            x -= RATE * (x - 1.5)
        optimizer.zero_grad()
        optimizer.step()  # there are no gradients, so nothing changes
        assert ((model.x - x).abs() < 1e-12).all() and ((model.other.x - x).abs() < 1e-5).all()
        assert (model.frozen == bf.rank()).all()
        bytes_ = optimizer.counts()["bytes"]
        assert bytes_ > 5 * 1.5 * (COUNT * 8 + 3 * 4)
        optimizer.end()


def check_a_scheduler_sets_the_rate() -> None:
    model = Parabola()
    optimizer = bf.DistributedStrategyOptimizer(model, "dpsgd", lr=RATE, peers=1)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    x = torch.full((COUNT,), 5.0 - bf.rank(), dtype=torch.float64)
    expected = weft.Strategy(weft.init(), "dpsgd", x, rate=RATE, peers=1, window_name="expected")
    for step in range(4):
        train(model, optimizer, 1)
        schedule.step()
        expected.set_rate(RATE * 0.5**step)
        expected.step(x - bf.rank())
    torch.testing.assert_close(model.x.detach(), x, rtol=1e-9, atol=1e-12)
    optimizer.end()
    expected.end()


def check_parameters_that_moved_and_copies() -> None:
    """What gave parameters other memory keeps its values, and a copy of the model is its own."""
    model = Parabola()
    plain = torch.optim.SGD(model.parameters(), lr=RATE)
    optimizer = bf.DistributedDiLoCoOptimizer(plain, model, 2, outer_rate=1.0, outer_momentum=0.0)
    twin = copy.deepcopy(model)
    model.x.data = model.x.data.clone() + 1
    train(model, optimizer, 2)
    assert ((model.x - (1.5 + 0.81 * 4.5)).abs() < 1e-12).all() and (twin.x == 5).all()
    optimizer.end()


def check_ten_steps_alone_send_an_eighth_of_the_bytes() -> None:
    def sent(make: Callable[[nn.Module], Any]) -> int:
        model = Parabola(1000, torch.float32)
        optimizer = make(model)
        train(model, optimizer, 20)
        bytes_: int = optimizer.counts()["bytes"]
        optimizer.end()
        return bytes_

    every_step = sent(lambda model: bf.DistributedStrategyOptimizer(model, "allreduce", lr=RATE))
    for make in SECTIONS.values():
        few = sent(lambda model: make(torch.optim.SGD(model.parameters(), lr=RATE), model))
        assert few > 0 and every_step >= 8 * few, (every_step, few)
    compressed = sent(
        lambda model: bf.DistributedDiLoCoOptimizer(
            torch.optim.SGD(model.parameters(), lr=RATE), model, compression="f16"
        )
    )
    assert every_step >= 16 * compressed > 0


def check_what_is_refused() -> None:
    model = Parabola()
    plain = torch.optim.SGD(model.parameters(), lr=RATE)
    for section in (0, 2.5):
        for make in SECTIONS.values():
            raises(weft.InvalidArgument, lambda: make(plain, model, section=section), f"section={section}")
    raises(
        weft.InvalidArgument,
        lambda: bf.DistributedDiLoCoOptimizer(plain, model, outer_momentum=1.5),
        'strategy "diloco": outer_momentum is 1.5; 0 to below 1 is needed',
    )
    raises(
        weft.InvalidArgument,
        lambda: bf.DistributedStrategyOptimizer(model, "hogwild"),
        'there is no strategy "hogwild", only parameter_server',
    )
    raises(
        weft.InvalidArgument,
        lambda: bf.DistributedStrategyOptimizer(model, "ring", peers=1),
        'strategy "ring": it has no peers',
    )
    raises(
        weft.InvalidArgument,
        lambda: bf.DistributedDiLoCoOptimizer(plain, model, compression="f16"),
        "a model of f64 cannot be compressed",
    )
    mixed = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double())
    raises(
        weft.InvalidArgument,
        lambda: bf.DistributedStrategyOptimizer(mixed, "prague"),
        "parameters of torch.float32 and torch.float64; the strategy of this optimizer takes one type",
    )
    own = 2 if bf.rank() == 3 else 3
    raises(weft.Mismatch, lambda: bf.DistributedDiLoCoOptimizer(plain, model, section=own), "rank ")
    rate = 0.7 if bf.rank() == 3 else 0.6
    raises(
        weft.Mismatch,
        lambda: bf.DistributedNoLoCoOptimizer(plain, model, outer_rate=rate),
        "ranks 0 and 3 disagree",
        "outer_rate 0.6",
        "outer_rate 0.7",
    )
    train(model, plain, 1)  # it is as it was
    optimizer = bf.DistributedDiLoCoOptimizer(plain, model)
    raises(weft.InvalidArgument, lambda: bf.DistributedDiLoCoOptimizer(optimizer, model), "distributed")
    raises(RuntimeError, lambda: optimizer.add_param_group({"params": []}), "add_param_group")
    optimizer.end()
    raises(RuntimeError, lambda: train(model, optimizer, 1), "end() has ended the strategy")
    by_name = bf.DistributedStrategyOptimizer(model, "dpsgd:awc")
    model()
    raises(weft.InvalidArgument, by_name.end, "an iteration has begun and not ended")
    by_name.step()
    by_name.end()
    raises(RuntimeError, lambda: train(model, by_name, 1), "end() has ended the strategy")


def check_end() -> None:
    bf.shutdown()


if __name__ == "__main__":
    torch.set_num_threads(1)
    bf.init()
    run_checks({**vars(torch_algorithms_checks), **globals()})
