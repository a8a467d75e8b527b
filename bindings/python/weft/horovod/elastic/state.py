"""State: what a training goes on from."""

from __future__ import annotations

import queue
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from weft.horovod._basics import rank
from weft.horovod._objects import broadcast_object
from weft.horovod.elastic._handlers import StateHandler, get_handler_registry, handler_of
from weft.horovod.elastic._handlers import set_handler_registry

__all__ = [
    "HostsUpdatedInterrupt",
    "ObjectState",
    "State",
    "StateHandler",
    "TorchState",
    "get_handler_registry",
    "set_handler_registry",
]

REMOVED = 2  # of the kinds of updates of hosts: ranks have only gone


class HostsUpdatedInterrupt(RuntimeError):
    """The machines of the job are about to change: the ranks join anew, with the state as it is.

    skip_sync: whether they need no state of rank 0, because ranks have only gone.
    """

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("the machines of the job change")
        self.skip_sync = skip_sync


class State:
    """What is kept of a training. A subclass says how, in save(), restore() and sync().

    Args:
        bcast_object: gives all ranks an object of rank 0, as broadcast_object().
        get_rank: the number of this process.
    """

    def __init__(self, bcast_object: Callable[..., Any], get_rank: Callable[[], int]) -> None:
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._host_messages: "queue.Queue[Tuple[float, int]]" = queue.Queue()
        self._last_updated_timestamp = 0.0
        self._reset_callbacks: List[Callable[[], None]] = []
        self.committed: Callable[[State], None] = lambda state: None  # what follows each commit

    def register_reset_callbacks(self, callbacks: Sequence[Callable[[], None]]) -> None:
        """Functions to be called whenever the ranks have joined anew."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """The ranks have joined anew."""
        self._host_messages = queue.Queue()
        self.reset()
        for each in self._reset_callbacks:
            each()

    def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """For whoever starts ranks: tells that machines come (1), go (2), or both (3).

        Only what rank 0 is told counts.
        """
        self._host_messages.put((timestamp, update_res))

    def commit(self) -> None:
        """Keeps the state as it is now, and looks whether machines change. Collective."""
        self.save()
        self.committed(self)
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Raises HostsUpdatedInterrupt on all ranks if rank 0 was told of a change. Collective."""
        before = latest = self._last_updated_timestamp
        kinds = 0
        while not self._host_messages.empty():
            timestamp, kind = self._host_messages.get()
            if timestamp > latest:
                latest, kinds = timestamp, kinds | kind
        before, self._last_updated_timestamp, kinds = self._bcast_object((before, latest, kinds))
        if self._last_updated_timestamp > before:
            raise HostsUpdatedInterrupt(kinds == REMOVED)

    def save(self) -> None:
        """Keeps the state in the memory of this process."""
        raise NotImplementedError

    def restore(self) -> None:
        """Goes back to what was kept last."""
        raise NotImplementedError

    def sync(self) -> None:
        """Gives all ranks the state of rank 0."""
        raise NotImplementedError

    def reset(self) -> None:
        """What has to be done before the sync() of ranks that have joined anew."""

    def saved(self) -> Any:
        """What was kept last, as one object that can be pickled."""
        raise NotImplementedError

    def load(self, saved: Any) -> None:
        """Goes back to what saved() has given, in this process or in another."""
        raise NotImplementedError


class ObjectState(State):
    """Objects of Python, each an attribute that has the name of its argument."""

    def __init__(
        self, bcast_object: Callable[..., Any], get_rank: Callable[[], int], **kwargs: Any
    ) -> None:
        self._saved_state = kwargs
        self._set_attributes()
        super().__init__(bcast_object, get_rank)

    def save(self) -> None:
        """Keeps the attributes. They are not copied."""
        self._saved_state = {name: getattr(self, name) for name in self._saved_state}

    def restore(self) -> None:
        """Sets the attributes to what was kept."""
        self._set_attributes()

    def sync(self) -> None:
        """Gives all ranks the attributes of rank 0, and keeps them."""
        ObjectState.save(self)
        if self._saved_state:
            self._saved_state = self._bcast_object(self._saved_state)
            self._set_attributes()

    def saved(self) -> Any:
        """The attributes that were kept."""
        return self._saved_state

    def load(self, saved: Any) -> None:
        """Keeps these attributes, and sets them."""
        self._saved_state = {**self._saved_state, **saved}
        self._set_attributes()

    def _set_attributes(self) -> None:
        for name, value in self._saved_state.items():
            setattr(self, name, value)


class TorchState(ObjectState):
    """A model, an optimizer, and anything else, each an attribute.

    Models, optimizers and ElasticSamplers are kept by copies of their states. Other objects are
    kept as they are.
    """

    def __init__(
        self,
        model: Optional[torch.nn.Module] = None,
        optimizer: Optional[torch.optim.Optimizer] = None,
        **kwargs: Any,
    ) -> None:
        given = {**kwargs, "model": model, "optimizer": optimizer}
        handlers = {name: handler_of(value) for name, value in given.items()}
        self._handlers: Dict[str, StateHandler] = {
            name: each for name, each in handlers.items() if each is not None
        }
        for name, each in self._handlers.items():
            super().__setattr__(name, each.value)
        others = {name: value for name, value in given.items() if name not in self._handlers}
        super().__init__(broadcast_object, rank, **others)

    def save(self) -> None:
        """Keeps copies of the states, and the other objects."""
        for each in self._handlers.values():
            each.save()
        super().save()

    def restore(self) -> None:
        """Goes back to what was kept last."""
        for each in self._handlers.values():
            each.restore()
        super().restore()

    def sync(self) -> None:
        """Gives all ranks the state of rank 0, and keeps it."""
        for each in self._handlers.values():
            each.sync()
        super().sync()

    def saved(self) -> Any:
        """The copies of the states, and the other objects."""
        return {name: each.kept for name, each in self._handlers.items()}, super().saved()

    def load(self, saved: Any) -> None:
        """Goes back to what saved() has given."""
        kept, others = saved
        for name, state in kept.items():
            self._handlers[name].kept = state
            self._handlers[name].restore()
        super().load(others)

    def __setattr__(self, name: str, value: Any) -> None:
        handlers: Dict[str, StateHandler] = self.__dict__.get("_handlers", {})
        if name in handlers and value is not handlers[name].value:
            handlers[name].set_value(value)
        super().__setattr__(name, value)
