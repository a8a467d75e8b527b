"""Checks of the optimizers by asynchronous algorithms, as a part of torch_strategies_ranks.py."""

from __future__ import annotations

import os
import sys
from typing import Any, Callable, List

import torch
import weft
import weft.torch as bf
from torch import nn
from torch_models import RATE, Parabola, raises, train

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "examples", "python"))

import digits  # noqa: E402

GROUPS = bf.DistributedPartialAllreduceOptimizer
PIECES = bf.DistributedGradientExchangeOptimizer


def sgd_of(model: nn.Module, rate: float = RATE) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=rate)


def layers_of(rank: int) -> Any:
    """Two layers with parameters, which are another start for each rank."""
    torch.manual_seed(100 + rank)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)).double()


def descend(model: nn.Module, optimizer: Any, step: int) -> None:
    torch.manual_seed(1000 * step + bf.rank())
    x = torch.randn(8, 4, dtype=torch.float64)
    optimizer.zero_grad()
    ((model(x) - x[:, :2]) ** 2).mean().backward()
    optimizer.step()


def check_groups_take_the_steps_of_partial_allreduce() -> None:
    for section in (1, 3):
        model = Parabola()
        optimizer = GROUPS(sgd_of(model), model, law="static", section=section)
        assert (model.x == 5).all()  # the model of rank 0
        x = torch.full_like(model.x.detach(), 5.0)
        with weft.PartialAllreduce(weft.init(), x, law="static", section=section) as partial:
            for _ in range(9):
                train(model, optimizer, 1)
                x -= RATE * (x - bf.rank())
                assert optimizer.group == partial.average()
                assert bf.rank() in optimizer.group or (section > 1 and not optimizer.group)
                torch.testing.assert_close(model.x.detach(), x, rtol=1e-9, atol=1e-12)
        optimizer.end()


def check_a_request_for_a_group_leaves_before_the_gradient_is_computed() -> None:
    model = Parabola()
    optimizer = GROUPS(sgd_of(model, 0.01), model, law="random:2")
    assert optimizer.usage()["messages_sent"] == 0
    loss = model()
    assert optimizer.usage()["messages_sent"] == 1
    loss.backward()
    optimizer.step()
    assert optimizer.usage()["messages_sent"] > 1  # it has asked for the next one
    train(model, optimizer, 60 + bf.rank())  # different numbers of steps
    optimizer.end()
    assert optimizer.usage()["messages_received"] >= 60
    assert ((model.x > -0.5) & (model.x < 5)).all()


def check_a_bulk_exchange_is_an_allreduce() -> None:
    for colayers in (1, 2, None):
        models = [layers_of(bf.rank()), layers_of(0)]
        plains = [torch.optim.AdamW(each.parameters(), lr=0.01) for each in models]
        pieces = PIECES(plains[0], models[0], rule="bulk", colayers=colayers)
        assert len(pieces._places) == (colayers or 2)
        expected = bf.DistributedGradientAllreduceOptimizer(plains[1], models[1])
        for step in range(6):
            descend(models[0], pieces, step)
            descend(models[1], expected, step)
            for found, want in zip(models[0].parameters(), models[1].parameters()):
                torch.testing.assert_close(found, want, rtol=1e-9, atol=1e-12)
        assert pieces.counts()["iterations"] == 6 and pieces.counts()["dropped"] == 0
        pieces.end()


def check_pieces_of_a_mesh_are_a_compressed_allreduce() -> None:
    model = nn.Linear(60, 50)
    with torch.no_grad():
        model.weight.zero_()
    plain = torch.optim.SGD(model.parameters(), lr=1.0)
    optimizer = PIECES(plain, model, rule="bulk", topology="mesh", compression="f16")
    for _ in range(3):
        optimizer.zero_grad()
        (model.weight.sum() * bf.rank()).backward()
        optimizer.step()
    assert ((model.weight + 3 * 1.5).abs() < 1e-2).all()
    assert optimizer.counts()["bytes"] < 3 * 2 * 4 * 3200 / 1.5
    optimizer.end()


def check_pieces_leave_while_backward_computes() -> None:
    model = layers_of(0)
    optimizer = PIECES(sgd_of(model), model, rule="asynchronous", colayers=2)
    seen: List[int] = []
    model[0].weight.register_hook(lambda gradient: seen.append(optimizer.counts()["bytes"]))
    first, last = [sum(each.numel() for each in model[i].parameters()) for i in (0, 2)]
    loss = model(torch.ones(3, 4, dtype=torch.float64)).sum()
    assert optimizer.counts()["bytes"] == 0
    loss.backward()
    sent = optimizer.counts()["bytes"]
    assert 8 * 3 * last <= seen[0] < sent and sent >= 8 * 3 * (first + last)  # and gaps
    raises(RuntimeError, optimizer.zero_grad, "between backward() and step()")
    again = model(torch.ones(3, 4, dtype=torch.float64)).sum()
    raises(RuntimeError, again.backward, "backward() was called more often")
    optimizer.step()
    optimizer.end()


def check_gradients_are_means_after_synchronize_and_missing_ones_count_as_0() -> None:
    model: Any = Parabola()
    model.unused = nn.Linear(3, 2).double()
    optimizer = PIECES(sgd_of(model), model, rule="bulk")
    for _ in range(2):
        optimizer.zero_grad()
        before = model.x.detach().clone()
        model().backward()
        optimizer.synchronize()
        assert ((model.x.grad - (before - 1.5)).abs() < 1e-12).all()
        assert (model.unused.weight.grad == 0).all()
        model.x.grad.mul_(0.5)
        optimizer.step()
        assert ((model.x - (before - 0.5 * RATE * (before - 1.5))).abs() < 1e-12).all()
    assert optimizer.counts()["iterations"] == 2
    optimizer.end()


def check_a_late_rank_takes_the_parameters_of_the_fastest() -> None:
    model = Parabola()
    plain = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
    optimizer = PIECES(plain, model, colayers=1, staleness=2, proportion=1)
    loss = model()  # the first iteration begins
    bf.barrier()
    if bf.rank() == 0:
        loss.backward()
        optimizer.step()
        train(model, optimizer, 3)
        model()
    fastest = bf.broadcast(model.x.detach(), root_rank=0)
    if bf.rank() != 0:
        loss.backward()
        optimizer.step()
        assert optimizer.counts()["dropped"] == 1 and not plain.state
        assert torch.equal(model.x.detach(), fastest)
    bf.barrier()
    if bf.rank() == 0:
        optimizer.step()
    optimizer.end()


def check_free_exchanges_come_to_the_model_of_least_loss() -> None:
    """By small steps, as many gradients of other ranks may come at once."""
    for rule in ("asynchronous", "canary", "bounded"):
        model = Parabola()
        optimizer = PIECES(sgd_of(model, 0.01), model, rule=rule)
        train(model, optimizer, 30)
        optimizer.end()
        assert ((model.x > -0.5) & (model.x < 4.9)).all(), rule


def learned(make: Callable[..., Any], **options: Any) -> float:
    """The accuracy of the mean of the ranks' networks on digits that none was trained on."""
    torch.manual_seed(bf.rank())
    model = digits.make_model()
    mine, test = digits.load()
    optimizer = make(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.8), model, **options)
    for _ in range(5):
        for rows in torch.randperm(len(mine[1])).split(16):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(mine[0][rows]), mine[1][rows]).backward()
            optimizer.step()
    optimizer.end()  # before ranks wait for each other
    bf.allreduce_parameters(model.state_dict())  # what the ranks have learned together
    return float(bf.allgather(digits.accuracy(model, test)).min())


def check_digits_are_learned() -> None:
    by_groups, by_pieces = learned(GROUPS), learned(PIECES, rule="bounded", staleness=2)
    assert min(by_groups, by_pieces) > 0.85, (by_groups, by_pieces)


def check_what_the_algorithms_refuse() -> None:
    model = Parabola()
    plain = sgd_of(model)

    def refuses(make: Callable[..., Any], text: str, **options: Any) -> None:
        raises(weft.InvalidArgument, lambda: make(plain, model, **options), text)

    refuses(GROUPS, "eager", law="eager")
    refuses(GROUPS, "threshold", threshold=1)
    refuses(GROUPS, "a section of 0 iterations", section=0)
    refuses(PIECES, "there is no exchange rule 'eager'", rule="eager")
    refuses(PIECES, 'staleness=3: the rule "bulk" has no staleness', rule="bulk", staleness=3)
    refuses(PIECES, 'proportion=1: the rule "bounded" has no', rule="bounded", proportion=1)
    refuses(PIECES, "a staleness of -1", staleness=-1)
    refuses(PIECES, "no exchange topology 'ring'", topology="ring")
    refuses(PIECES, "cannot be compressed", compression="sketch")
    refuses(PIECES, "bundle_layers: 9 colayers of 1 layers", colayers=9)
    refuses(PIECES, "bundle_layers: 0 colayers of 1 layers", colayers=0)
    own = 7 if bf.rank() == 3 else 8
    raises(weft.Mismatch, lambda: GROUPS(plain, model, seed=own), "ranks 0 and 3 disagree")
    raises(weft.Mismatch, lambda: PIECES(plain, model, staleness=own), "ranks 0 and 3 disagree")
    train(model, plain, 1)  # it is as it was
    mixed = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double())
    for make in (GROUPS, PIECES):
        raises(
            weft.InvalidArgument,
            lambda: make(sgd_of(mixed), mixed),
            "parameters of torch.float32 and torch.float64",
        )
        optimizer = make(plain, model)
        raises(weft.InvalidArgument, lambda: make(optimizer, model), "distributed already")
        optimizer.end()
        raises(RuntimeError, lambda: train(model, optimizer, 1), "end() has ended the ")
    optimizer = PIECES(plain, model)
    model()
    raises(weft.InvalidArgument, optimizer.end, "an iteration has begun and not ended")
    optimizer.step()
    optimizer.end()
