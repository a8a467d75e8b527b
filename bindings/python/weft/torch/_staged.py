"""Operations of several stages.

The second stages start in the order in which the first ones did, except for operations by name,
whose order differs from rank to rank. Only those may have more than two stages.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Callable, Deque, List, Optional, Set

from weft import _core
from weft._errors import Closed

Stage = List[_core.Handle]  # the operations of one stage, which run at the same time


class Staged:
    """An operation whose first stage has started. Each move starts the next one."""

    def __init__(
        self, first: Stage, *moves: Callable[[], Stage], is_by_name: bool = False
    ) -> None:
        assert is_by_name or len(moves) == 1
        self.running = first  # the stage that has started last
        self.is_by_name = is_by_name
        self._moves = deque(moves)
        self._error: Optional[BaseException] = None

    @property
    def has_moved(self) -> bool:
        """Whether the last stage has started, or cannot start."""
        return not self._moves

    def move(self) -> None:
        """Starts the next stage. The one that runs is done."""
        try:
            for each in self.running:
                each.wait()
            self.running = self._moves[0]()
            self._moves.popleft()
        except Exception as error:
            self._give_up(error)

    def watch(self) -> None:
        """Starts the next stage when the one that runs is done."""
        for each in self.running:
            each.then(lambda error: self.advance())
        self.advance()

    def advance(self) -> None:
        """Starts the next stage if it can start, and others before it."""
        if not self.is_by_name:
            return advance()
        with _lock:
            if self.has_moved or not all([each.test() for each in self.running]):
                return
            self.move()
            if self.has_moved:
                _named.discard(self)
                return
        self.watch()

    def cancel(self) -> None:
        """Gives up the stages that have not started."""
        self._give_up(Closed("weft.torch.shutdown() was called"))

    def _give_up(self, error: BaseException) -> None:
        self._error = error
        self.running = []
        self._moves.clear()

    def test(self) -> bool:
        """Whether all is done, with or without an error. Does not wait."""
        self.advance()
        return self.has_moved and all([each.test() for each in self.running])

    def wait(self) -> None:
        """Waits until all is done. Raises the error of a stage that failed."""
        while not self.has_moved:
            _wait_for(self.running if self.is_by_name else _firsts_of_oldest())
            self.advance()
        if self._error is not None:
            raise self._error
        for each in self.running:
            each.wait()


_lock = threading.RLock()
_waiting: Deque[Staged] = deque()  # those whose second stage has not started, oldest first
_named: Set[Staged] = set()  # those by name whose last stage has not started


def start(staged: Staged) -> Staged:
    """Lets the next stages start when their turns come."""
    with _lock:
        if staged.is_by_name:
            _named.add(staged)
        else:
            _waiting.append(staged)
    staged.watch()
    return staged


def advance() -> None:
    """Starts each second stage whose first is done, as long as no older one is in the way."""
    with _lock:
        while _waiting and all([each.test() for each in _waiting[0].running]):
            _waiting.popleft().move()


def clear() -> None:
    """Gives up all operations whose last stage has not started."""
    with _lock:
        while _waiting:
            _waiting.popleft().cancel()
        while _named:
            _named.pop().cancel()


def _firsts_of_oldest() -> Stage:
    with _lock:
        return _waiting[0].running if _waiting else []


def _wait_for(stage: Stage) -> None:
    for each in stage:
        try:
            each.wait()
        except Exception:
            pass  # move() finds the same error, and tells it to who waits for that operation
