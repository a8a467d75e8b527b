"""ElasticSampler: each rank's part of what is left of a data set in this epoch."""

from __future__ import annotations

import random
from typing import Any, Dict, Iterator, List, Sized

import torch

from weft.horovod._basics import rank, size


class ElasticSampler(torch.utils.data.Sampler[int]):
    """Divides a data set among the ranks, and what is left of it when the ranks change.

    It belongs into a TorchState. The program calls record_batch() after each batch, and set_epoch()
    at the end of each epoch.

    Args:
        dataset: as long on all ranks, and in all epochs.
        shuffle: whether the order is another one in each epoch.
        seed: of the order; the same on all ranks.
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0  # samples of this epoch that all ranks together have done
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begins an epoch, of which nothing is done yet."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Each rank has done one batch of this size."""
        self.processed_num += batch_size * self.num_replicas

    def state_dict(self) -> Dict[str, Any]:
        """The epoch, and what is done of it."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Goes on from there, with the ranks of now."""
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict["processed_num"]
        self.reset()

    def reset(self) -> None:
        """Divides what is left among the ranks of now."""
        self.num_replicas, self.rank = size(), rank()
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(order)
        self.remaining_indices = order[self.processed_num :]
        self.num_samples = -(-len(self.remaining_indices) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        left = self.remaining_indices
        # Some samples are taken again, so that all ranks have as many.
        whole: List[int] = (left * -(-self.total_size // max(len(left), 1)))[: self.total_size]
        return iter(whole[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples
