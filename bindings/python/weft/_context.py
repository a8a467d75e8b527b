"""Context: a rank's membership in a job, and the operations on arrays.

Arrays are NumPy arrays, torch tensors, arrays on a GPU, or anything with DLPack or the buffer protocol.
Without `out` the result is a new array of the same library. An input is never changed unless it is
also the output. Every operation exists as a blocking call and, with the name `..._start`, as one that
returns a Handle at once; until that is done, the arrays must be left alone.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

from weft import _core
from weft._arrays import check_prepared, memory_of, settle
from weft._core import Config, Handle, Prepared, Store
from weft._every import Instead, Operations
from weft._named import Named
from weft._operations import Call
from weft._window import Window, create


_OPERATIONS = [name[:-6] for name in vars(Operations) if name.endswith("_start") and name != "_start"]


class Context(_core.Context, Operations):
    """A rank's membership in a job. Every rank calls the same operations in the same order.

    An operation fails with an Error that names what is wrong; TimedOut, PeerDied and PeerLeft name a
    rank. After that the context has failed, and later calls raise the same error. Ctrl-C ends a wait.
    """

    @classmethod
    def from_environment(cls) -> Context:
        """Joins the job that the environment names (weft run, mpirun, torchrun). Collective."""
        return cls(_core.Context.from_environment())

    @classmethod
    def create(cls, config: Config, store: Store) -> Context:
        """Joins the job that the store leads to. Collective."""
        return cls(_core.Context.create(config, store))

    def __enter__(self) -> Context:
        return self

    def split(self, color: int, key: int = 0) -> Optional[Context]:
        """A context of the ranks that give the same color, numbered by (key, rank). Collective.

        None for a negative color.
        """
        made = super().split(color, key)
        return None if made is None else type(self)(made)

    def shrink(self) -> Context:
        """A context of the ranks that are left when others have died or left, numbered anew.

        Collective over those that are left. This context may have failed because of the others.

            try:
                ctx.allreduce(x, y)
            except weft.PeerDied:
                ctx = ctx.shrink()
        """
        return type(self)(super().shrink())

    def admit(self, state: Sequence[Any] = ()) -> List[int]:
        """Lets in ranks that have come back; returns the ranks that came in, as a rule none.

        With `WEFT_ON_DEATH=skip` a new process may take the number of a rank that is gone, as under
        `weft run --restart`. Collective over the members, between two steps. A rank that has come back
        calls it first, and waits here until the others call it.

            step = np.zeros(1, np.int64)
            while step[0] < steps:
                ctx.admit([model, step])   # whoever comes in goes on where its neighbor is
                ...

        Args:
            state: what a rank needs to go on: writable arrays in host memory, of the same sizes and types
                on all ranks. A rank that comes in takes those of its first in-neighbor that is there.
        """
        operands = [memory_of(each, "admit", writes=True, moves=True) for each in state]
        return super().admit_raw([(x.address, x.count, int(x.dtype)) for x in operands], operands)

    def prepare(self, operation: str, *args: Any, **options: Any) -> Prepared:
        """An operation with these arrays and options, to be run many times.

            step = ctx.prepare("allreduce", x, y, op="sum")
            for batch in batches:
                fill(x)
                step.run()                  # the same as ctx.allreduce(x, y, op="sum"), sooner

        Each run reads and writes the arrays as they are then. MPI calls such an operation persistent,
        and makes it with MPI_Allreduce_init and the like. Ranks that have prepared an operation and
        ranks that have not meet each other.

        Args:
            operation: the name of a function of this class.
            args, options: what that function takes. Without `out`, step.result is the output.
        """
        if operation not in _OPERATIONS:
            there_are = ", ".join(_OPERATIONS)
            raise ValueError(f"prepare: there is no operation {operation!r}; there are {there_are}")
        instead = Instead(self, self._prepare)
        getattr(instead, operation)(*args, **options)
        prepared: Prepared = instead.made
        return prepared

    def win_create(self, tensor: Any, name: str, *, zero_init: bool = False) -> Window:
        """Makes a window of the graph as it is now. Collective.

        All ranks give the same name, size, type and zero_init. The array's memory is shared with the
        window, and is kept until the window has ended. While windows exist, the graph cannot be
        changed.

        Args:
            tensor: contiguous and writable.
            zero_init: slots begin with zeros; else with the owner's array as it is now.
        """
        return create(self, tensor, name, zero_init)

    def win_fence(self) -> None:
        """Waits until the works of all ranks on all windows have ended. Collective."""
        settle([self.window(name).tensor for name in self.window_names()])
        super().win_fence()

    def named(
        self,
        *,
        cache_capacity: int = 1024,
        fusion_bytes: Optional[int] = None,
        fused_tensor_bytes: Optional[int] = None,
        gather_us: Optional[int] = None,
        piece_bytes: Optional[int] = None,
        stall_ms: int = 10_000,
        autotune: bool = False,
    ) -> Named:
        """Operations that ranks submit by name, in any order. Collective.

        Args:
            cache_capacity: how many names the ranks remember; 0: none.
            fusion_bytes: small tensors travel as one message of at most so many bytes; 0: never.
            fused_tensor_bytes: a larger tensor travels alone.
            gather_us: how long a rank that has something new waits for more.
            piece_bytes: messages to other machines travel in pieces of at most so many bytes.
            stall_ms: a name that is pending for so long is told in the log.
            autotune: finds the values that are not given by trying, while a loop repeats its names;
                all ranks give the same.
        """
        given = (fusion_bytes, fused_tensor_bytes, gather_us, piece_bytes)
        settings = [-1 if each is None else each for each in given]
        return Named(self, self.named_raw(cache_capacity, *settings, stall_ms, autotune))

    def window(self, name: str) -> Window:
        """The window of that name."""
        return Window(super().window(name))

    def _run(self, call: Call) -> Any:
        self.run_raw(call.request())
        return call.out

    def _start(self, call: Call) -> Handle:
        handle = self.start_raw(call.request())
        handle.result = call.out
        return handle

    def _prepare(self, call: Call) -> Prepared:
        if call.x is not None:
            check_prepared(call.x, call.kind.name)
        prepared: Prepared = self.prepare_raw(call.request())
        prepared.result = call.out
        return prepared
