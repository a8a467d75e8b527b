"""Operations of two stages.

The second stages start in the order in which the first ones did, except for operations by name,
whose order differs from rank to rank.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Callable, Deque, List, Optional, Set

from weft import _core
from weft._errors import Closed

Stage = List[_core.Handle]  # the operations of one stage, which run at the same time


class Staged:
    """An operation whose first stage has started; `move` starts the second."""

    def __init__(
        self, first: Stage, move: Callable[[], Stage], is_by_name: bool = False
    ) -> None:
        self.first = first
        self.is_by_name = is_by_name
        self._move: Optional[Callable[[], Stage]] = move
        self._second: Stage = []
        self._error: Optional[BaseException] = None

    @property
    def has_moved(self) -> bool:
        """Whether the second stage has started, or cannot start."""
        return self._move is None

    def move(self) -> None:
        """Starts the second stage. The first is done."""
        assert self._move is not None
        try:
            for each in self.first:
                each.wait()
            self._second = self._move()
        except Exception as error:
            self._error = error
        self._move = None

    def advance(self) -> None:
        """Starts the second stage if it can start, and others before it."""
        if not self.is_by_name:
            return advance()
        with _lock:
            if not self.has_moved and all([each.test() for each in self.first]):
                _named.discard(self)
                self.move()

    def cancel(self) -> None:
        """Gives up the second stage."""
        self._error = Closed("weft.torch.shutdown() was called")
        self._move = None

    def test(self) -> bool:
        """Whether all is done, with or without an error. Does not wait."""
        self.advance()
        return self.has_moved and all([each.test() for each in self._second])

    def wait(self) -> None:
        """Waits until all is done. Raises the error of a stage that failed."""
        while not self.has_moved:
            _wait_for(self.first if self.is_by_name else _firsts_of_oldest())
            self.advance()
        if self._error is not None:
            raise self._error
        for each in self._second:
            each.wait()


_lock = threading.RLock()
_waiting: Deque[Staged] = deque()  # those whose second stage has not started, oldest first
_named: Set[Staged] = set()  # the same by name


def start(staged: Staged) -> Staged:
    """Lets the second stage start when its turn comes."""
    with _lock:
        if staged.is_by_name:
            _named.add(staged)
        else:
            _waiting.append(staged)
    for each in staged.first:
        each.then(lambda error: staged.advance())
    staged.advance()
    return staged


def advance() -> None:
    """Starts each second stage whose first is done, as long as no older one is in the way."""
    with _lock:
        while _waiting and all([each.test() for each in _waiting[0].first]):
            _waiting.popleft().move()


def clear() -> None:
    """Gives up all operations whose second stage has not started."""
    with _lock:
        while _waiting:
            _waiting.popleft().cancel()
        while _named:
            _named.pop().cancel()


def _firsts_of_oldest() -> Stage:
    with _lock:
        return _waiting[0].first if _waiting else []


def _wait_for(stage: Stage) -> None:
    for each in stage:
        try:
            each.wait()
        except Exception:
            pass  # move() finds the same error, and tells it to who waits for that operation
