"""run(): the loop around a training, which begins it anew after a failure."""

from __future__ import annotations

import functools
from typing import Any, Callable

from weft._errors import Error, InvalidArgument, Mismatch
from weft.horovod._basics import init, shutdown
from weft.horovod.elastic._commits import Commits
from weft.horovod.elastic.state import HostsUpdatedInterrupt, State


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a function of a State and other arguments one that goes on after a failure.

    Before each call the ranks get rank 0's state. A weft.Error in the call restores the last commit;
    HostsUpdatedInterrupt keeps the state as it is. Then all ranks leave the job, join it anew, and
    the function is called again. An error that would come again is raised: a mistake in an argument,
    a mismatch between ranks, and that of a rank which cannot join because another one has died.
    """

    @functools.wraps(func)
    def wrapper(state: State, *args: Any, **kwargs: Any) -> Any:
        commits = Commits.from_environment()
        commits.restore(state)
        state.committed = commits.save
        needs_sync = True
        while True:
            try:
                if needs_sync:
                    state.sync()
                result = func(state, *args, **kwargs)
                commits.remove()
                return result
            except (InvalidArgument, Mismatch):
                raise
            except Error as error:
                _join_anew(error)
                state.restore()
                needs_sync = True
            except HostsUpdatedInterrupt as interrupt:
                _join_anew(interrupt)
                needs_sync = not interrupt.skip_sync
            state.on_reset()

    return wrapper


def _join_anew(why: BaseException) -> None:
    shutdown()
    try:
        init()
    except Error as error:
        raise why from error
