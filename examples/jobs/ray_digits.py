"""Data parallel training by Ray, whose workers communicate over Weft.

    pip install "ray[train]" torch && pip install .
    python examples/jobs/ray_digits.py [--workers N] [--epochs N]

Ray makes the process group, so the backend must be known in each worker before: `worker_process_setup_hook` of Ray sees to that.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from typing import Any, Dict

import ray
import torch
from ray.train import ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer, prepare_model

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "python"
TEST_IMAGES = 360
BATCH = 32


def make_weft_known() -> None:
    import weft.torch  # noqa: F401


def train(options: Dict[str, Any]) -> None:
    """What each worker runs."""
    import torch.distributed as dist

    sys.path.insert(0, str(EXAMPLES))
    from ddp import network
    from images import DATA, read_digits

    rank, size = dist.get_rank(), dist.get_world_size()
    images, digits = read_digits(DATA)
    each = (len(images) - TEST_IMAGES) // size
    mine = slice(TEST_IMAGES + rank * each, TEST_IMAGES + (rank + 1) * each)
    torch.manual_seed(0)
    model = prepare_model(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loss_of = torch.nn.CrossEntropyLoss()
    for epoch in range(options["epochs"]):
        for batch in torch.randperm(each).split(BATCH):
            optimizer.zero_grad()
            loss_of(model(images[mine][batch]), digits[mine][batch]).backward()
            optimizer.step()
        with torch.no_grad():
            right = (model(images[:TEST_IMAGES]).argmax(1) == digits[:TEST_IMAGES]).float().mean()
        dist.all_reduce(right, dist.ReduceOp.AVG)
        if rank == 0:
            print(f"epoch {epoch + 1}: {right.item():.1%} right over {dist.get_backend()}", flush=True)
        ray.train.report({"right": right.item()})


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args()
    ray.init(runtime_env={"worker_process_setup_hook": make_weft_known})
    trainer = TorchTrainer(
        train,
        train_loop_config={"epochs": options.epochs},
        torch_config=TorchConfig(backend="weft"),
        scaling_config=ScalingConfig(num_workers=options.workers),
    )
    trainer.fit()


if __name__ == "__main__":
    main()
