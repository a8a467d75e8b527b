"""Handlers: how a TorchState keeps models, optimizers and samplers."""

from __future__ import annotations

import copy
from typing import Any, List, Optional, Tuple, Type

import torch

from weft.horovod._objects import (
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)
from weft.horovod.elastic.sampler import ElasticSampler


class StateHandler:
    """How a State keeps an object that has a state_dict()."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.save()

    def save(self) -> None:
        """Copies the object's state."""
        self.kept: Any = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        """Gives the object the state that was copied."""
        self.value.load_state_dict(copy.deepcopy(self.kept))

    def sync(self) -> None:
        """Gives all ranks the state of rank 0's object."""
        raise NotImplementedError

    def set_value(self, value: Any) -> None:
        """Takes another object."""
        self.value = value
        self.save()


class ModelStateHandler(StateHandler):
    """A torch.nn.Module."""

    def sync(self) -> None:
        broadcast_parameters(self.value.state_dict(), root_rank=0)
        self.save()


class OptimizerStateHandler(StateHandler):
    """A torch.optim.Optimizer."""

    def sync(self) -> None:
        broadcast_optimizer_state(self.value, root_rank=0)
        self.save()


class SamplerStateHandler(StateHandler):
    """An ElasticSampler."""

    def sync(self) -> None:
        self.value.load_state_dict(broadcast_object(self.value.state_dict()))
        self.save()


Registry = List[Tuple[type, Type[StateHandler]]]
_registry: Registry = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (ElasticSampler, SamplerStateHandler),
]


def get_handler_registry() -> Registry:
    """Which handler keeps objects of which class."""
    return _registry


def set_handler_registry(registry: Registry) -> None:
    """Sets which handler keeps objects of which class. The first that fits is taken."""
    global _registry
    _registry = registry


def handler_of(value: Any) -> Optional[StateHandler]:
    return next((handler(value) for kind, handler in _registry if isinstance(value, kind)), None)
