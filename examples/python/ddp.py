"""Data parallel training with torch's DistributedDataParallel over Weft.

    torchrun --nproc-per-node 2 examples/python/ddp.py [--data FILE] [--epochs N]

A small convolutional network learns to read handwritten digits. Each rank has its share of the
images. Compared with the program for gloo only the lines marked «weft» are different.
"""

from __future__ import annotations

import argparse
import pathlib
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import weft.torch  # noqa: F401  # weft: makes the backend known
from images import DATA, read_digits

TEST_IMAGES = 360
BATCH = 32


def network() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(32 * 4 * 4, 64),
        torch.nn.ReLU(),
        torch.nn.Linear(64, 10),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, default=DATA)
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args()

    dist.init_process_group("weft")  # weft: instead of "gloo"
    rank, size = dist.get_rank(), dist.get_world_size()

    images, digits = read_digits(options.data)
    test_images, test_digits = images[:TEST_IMAGES], digits[:TEST_IMAGES]
    # All ranks take equally many steps, as DDP needs.
    each = (len(images) - TEST_IMAGES) // size
    mine = slice(TEST_IMAGES + rank * each, TEST_IMAGES + (rank + 1) * each)
    images, digits = images[mine], digits[mine]

    torch.manual_seed(0)
    model = DistributedDataParallel(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loss_of = torch.nn.CrossEntropyLoss()
    for epoch in range(options.epochs):
        begin = time.perf_counter()
        order = torch.randperm(each)
        for batch in order.split(BATCH):
            optimizer.zero_grad()
            loss_of(model(images[batch]), digits[batch]).backward()
            optimizer.step()
        with torch.no_grad():
            right = (model(test_images).argmax(1) == test_digits).float().mean()
        dist.all_reduce(right, dist.ReduceOp.AVG)  # the same on all ranks
        if rank == 0:
            seconds = time.perf_counter() - begin
            print(f"epoch {epoch + 1}: {right.item():.1%} right, {seconds:.2f} s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
