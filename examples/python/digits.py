"""A small CNN that learns handwritten digits on several ranks.

    weft run -n 4 -- python digits.py                        # adapt with combine
    weft run -n 4 -- python digits.py --optimizer gradient --epochs 10

Each rank trains on its own part of the images. Rank 0 prints the accuracy on images that no rank
has trained on: the mean over the ranks, and the lowest. The ranks' models come close to each other
but need not become equal, except with --optimizer gradient. With put and get no rank waits for
another one; with diloco and noloco ranks meet after 10 steps each. With groups a rank averages with a
few others in each step, and with pieces gradients travel while backward() makes more of them.
"""

from __future__ import annotations

import argparse
from typing import Any, Tuple

import torch
import weft.torch as bf
from images import DATA, read_digits
from torch import nn

Data = Tuple[torch.Tensor, torch.Tensor]
Kinds = bf.CommunicationType
TEST_IMAGES = 360


def make_model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 2 * 2, 10),
    )


def load() -> Tuple[Data, Data]:
    """This rank's images with their digits, and those for the test, which all ranks share."""
    images, labels = read_digits(DATA)
    # The same number on all ranks, so all do equally many steps.
    rows = (len(labels) - TEST_IMAGES) // bf.size()
    mine = slice(TEST_IMAGES + bf.rank() * rows, TEST_IMAGES + (bf.rank() + 1) * rows)
    return (images[mine], labels[mine]), (images[:TEST_IMAGES], labels[:TEST_IMAGES])


def distribute(name: str, optimizer: Any, model: nn.Module) -> Any:
    if name == "gradient":
        return bf.DistributedGradientAllreduceOptimizer(optimizer, model)
    if name == "atc":
        return bf.DistributedAdaptThenCombineOptimizer(optimizer, model)
    windows = {
        "put": bf.DistributedWinPutOptimizer,
        "get": bf.DistributedPullGetOptimizer,
        "push": bf.DistributedPushSumOptimizer,
    }
    if name in windows:
        return windows[name](optimizer, model)
    if name == "groups":  # all ranks take equally many steps, as they meet after each epoch
        return bf.DistributedPartialAllreduceOptimizer(optimizer, model, law="static")
    if name == "pieces":
        return bf.DistributedGradientExchangeOptimizer(optimizer, model, rule="bulk")
    sections = {"diloco": bf.DistributedDiLoCoOptimizer, "noloco": bf.DistributedNoLoCoOptimizer}
    if name in sections:
        return sections[name](optimizer, model, section=10)
    kinds = {
        "awc": Kinds.neighbor_allreduce,
        "dynamic": Kinds.neighbor_allreduce,
        "allreduce": Kinds.allreduce,
        "hierarchical": Kinds.hierarchical_neighbor_allreduce,
        "alone": Kinds.empty,
    }
    if name == "hierarchical":
        bf.set_machine_topology(bf.RingGraph(bf.machine_size()))
    return bf.DistributedAdaptWithCombineOptimizer(optimizer, model, kinds[name])


def accuracy(model: nn.Module, data: Data) -> torch.Tensor:
    model.eval()
    with torch.no_grad():
        right = model(data[0]).argmax(1) == data[1]
    model.train()
    return right.float().mean().reshape(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = ["gradient", "awc", "atc", "dynamic", "allreduce", "hierarchical", "alone"]
    names += ["put", "get", "push", "diloco", "noloco", "groups", "pieces"]
    parser.add_argument("--optimizer", choices=names, default="awc")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=16)
    options = parser.parse_args()

    torch.set_num_threads(1)
    bf.init()
    torch.manual_seed(bf.rank())
    model = make_model()
    bf.broadcast_parameters(model.state_dict(), root_rank=0)
    plain: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    if options.optimizer in ("diloco", "noloco"):  # the step between sections has a momentum of its own
        plain = torch.optim.AdamW(model.parameters(), lr=0.003)
    optimizer = distribute(options.optimizer, plain, model)
    train, test = load()
    # One neighbor after another: a step's messages are then one in and one out.
    turns = bf.GetDynamicOnePeerSendRecvRanks(bf.load_topology(), bf.rank())

    for epoch in range(options.epochs):
        order = torch.randperm(len(train[1]))
        for rows in order.split(options.batch):
            if options.optimizer == "dynamic":
                targets, sources = next(turns)
                weight = 1.0 / (len(sources) + 1)
                optimizer.self_weight = weight
                optimizer.src_weights = {source: weight for source in sources}
                optimizer.dst_weights = targets
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(train[0][rows]), train[1][rows])
            loss.backward()
            optimizer.step()
        found = bf.allgather(accuracy(model, test))
        if bf.rank() == 0:
            mean, lowest = float(found.mean()), float(found.min())
            print(f"epoch {epoch + 1}: accuracy {mean:.3f}, lowest {lowest:.3f}", flush=True)
    bf.shutdown()


if __name__ == "__main__":
    main()
