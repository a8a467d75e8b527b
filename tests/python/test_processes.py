"""Ranks as processes: joining, leaving, failing, Ctrl-C, and the end of the interpreter."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import subprocess
import sys
import textwrap
import time
from typing import Any

import pytest
import weft

from conftest import LIMIT_S, alone, as_processes, interrupt_a_wait, until_it_waits


def test_average_on_four_ranks() -> None:
    done = as_processes(
        4,
        """
        import numpy as np, weft
        ctx = weft.init()
        x = np.full(3, float(ctx.rank))
        print("mean", ctx.allreduce(x)[0], ctx.rank, ctx.size, ctx.local_size)
        """,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for rank in range(4):
        assert f"mean 1.5 {rank} 4 4" in done.stdout


def test_without_a_launcher_the_rank_is_alone() -> None:
    done = alone("import weft; c = weft.init(); print(c.rank, c.size, repr(c))")
    assert done.stdout.split(" ", 2)[:2] == ["0", "1"] and done.stderr == ""


def test_init_twice_and_again_after_shutdown() -> None:
    done = as_processes(
        2,
        """
        import numpy as np, weft
        assert not weft.is_initialized()
        try:
            weft.context()
        except weft.Closed as error:
            assert "init" in str(error)
        first = weft.init()
        assert weft.init() is first is weft.context() and weft.is_initialized()
        assert first.allreduce(np.ones(3), op="sum")[0] == 2
        weft.shutdown()
        weft.shutdown()
        assert first.is_closed and not weft.is_initialized()
        again = weft.init()
        assert again is not first
        assert again.allreduce(np.ones(3), op="sum")[0] == 2
        print("fine")
        """,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("fine") == 2


def test_wrong_environment_is_an_error_that_names_the_variable() -> None:
    done = as_processes(
        1,
        """
        import os
        os.environ["WEFT_DEADLINE_MS"] = "soon"
        import weft
        try:
            weft.init()
        except weft.InvalidArgument as error:
            print(error)
        """,
    )
    assert "WEFT_DEADLINE_MS" in done.stdout


def test_a_rank_that_raises_is_named_to_the_others_in_seconds() -> None:
    start = time.monotonic()
    done = as_processes(
        3,
        """
        import numpy as np, time, weft
        ctx = weft.init()
        ctx.barrier()
        if ctx.rank == 2:
            raise RuntimeError("rank two has a problem")
        start = time.monotonic()
        try:
            ctx.allreduce(np.ones(3))
        except weft.PeerLeft as error:
            print("learned", error.rank, time.monotonic() - start < 10)
        """,
    )
    assert time.monotonic() - start < 30
    assert "rank two has a problem" in done.stderr
    assert done.stdout.count("learned 2 True") == 2, done.stdout + done.stderr


def test_a_rank_that_dies_is_named_to_the_others() -> None:
    done = as_processes(
        2,
        """
        import numpy as np, os, weft
        ctx = weft.init()
        ctx.barrier()
        if ctx.rank == 1:
            os._exit(3)
        try:
            ctx.allreduce(np.ones(3))
        except weft.PeerDied as error:
            print("learned", error.rank)
        """,
    )
    assert "learned 1" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    "pending",
    [
        "h = ctx.allreduce_start(np.ones(1000))",
        "ctx.allreduce_start(np.ones(1000))",
        "ctx.allreduce_start(np.ones(1000)).then(print)",
        "import weft._core; made = weft._core.Context(ctx); h = ctx.barrier_start()",
        "h = ctx.allreduce_start(np.ones(1000)); h.then(h.then)",
        "x = weft.empty(1000); h = [ctx.neighbor_allreduce_start(x) for _ in range(20)]",
    ],
)
def test_operations_pending_at_the_end_of_the_interpreter(pending: str) -> None:
    start = time.monotonic()
    done = as_processes(
        2,
        f"""
        import numpy as np, weft
        ctx = weft.init()
        ctx.barrier()
        if ctx.rank == 0:
            {pending}
        print("end")
        """,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("end") == 2
    assert time.monotonic() - start < 30


def test_a_daemon_thread_that_waits_at_the_end_of_the_interpreter() -> None:
    done = as_processes(
        2,
        """
        import numpy as np, threading, weft
        ctx = weft.init()
        ctx.barrier()
        if ctx.rank == 0:
            begun = threading.Event()
            def wait():
                begun.set()
                ctx.allreduce(np.ones(3))
            threading.Thread(target=wait, daemon=True).start()
            begun.wait()
        print("end")
        """,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("end") == 2


def test_daemon_threads_that_are_busy_at_the_end_of_the_interpreter() -> None:
    program = """
        import threading
        import numpy as np, weft
        stores = weft.make_local_stores(2)
        begun = threading.Barrier(3)
        def rank(number):
            ctx = weft.Context.create(weft.Config(deadline_ms=20_000), stores[number])
            begun.wait()
            x = np.ones(1000)
            while True:
                handle = ctx.allreduce_start(x)
                handle.then(lambda error: None)
                ctx.allreduce(x)
                handle.wait()
        for number in range(2):
            threading.Thread(target=rank, args=(number,), daemon=True).start()
        begun.wait()
        threading.excepthook = lambda arguments: None  # they are told that the context was closed
    """
    for _ in range(5):
        done = alone(program)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.parametrize(
    "wait",
    [
        "ctx.allreduce(np.ones(3))",
        "ctx.allreduce(np.ones((2, 3)).T)",
        "ctx.barrier()",
        "ctx.allreduce_start(np.ones(3)).wait()",
        "ctx.allreduce_start(np.ones(3)).wait(timeout=50)",
        "ctx.recv(np.ones(3), 1)",
        "x = np.ones(3); ctx.run_raw(weft._core.Request(3, x.ctypes.data, 3, x.ctypes.data, 3, 3))",
        "ctx.split(0)",
    ],
)
def test_control_c_ends_a_wait(wait: str) -> None:
    """Rank 0 waits for an operation that rank 1 does not call until rank 0 was interrupted."""
    program = f"""
        import numpy as np, os, signal, sys, threading, time, weft
        stores = weft.make_local_stores(2)
        config = weft.Config(deadline_ms=50_000)
        other = []
        thread = threading.Thread(
            target=lambda: other.append(weft.Context.create(config, stores[1])))
        thread.start()
        ctx = weft.Context.create(config, stores[0])
        thread.join()
        print("ready", flush=True)
        start = time.monotonic()
        try:
            {wait}
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        other[0].close()
        ctx.close()
    """
    interrupt_a_wait(program)


def test_control_c_while_joining() -> None:
    environment = {
        **os.environ,
        "WEFT_RANK": "1",
        "WEFT_SIZE": "2",
        "WEFT_RENDEZVOUS": "127.0.0.1:1",  # nobody listens there
        "WEFT_JOB_KEY": "0" * 64,
    }
    program = """
        import weft
        print("ready", flush=True)
        try:
            weft.init()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        until_it_waits(child.pid)
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n"
        assert child.wait(LIMIT_S) == 0
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def test_a_forked_child_gets_an_error_and_does_not_hurt_its_parent() -> None:
    done = as_processes(
        2,
        """
        import numpy as np, os, weft
        ctx = weft.init()
        ctx.barrier()
        child = os.fork()
        if child == 0:
            try:
                ctx.allreduce(np.ones(3))
            except weft.Error as error:
                os._exit(7)
            os._exit(8)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        child = os.fork()
        if child == 0:
            raise SystemExit(0)  # the exit hook runs in the child, too
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        print("sum", ctx.allreduce(np.ones(3), op="sum")[0])
        """,
    )
    assert done.stdout.count("sum 2.0") == 2, done.stdout + done.stderr


def test_a_subinterpreter_is_refused_and_the_main_one_goes_on() -> None:
    done = alone(
        """
        import numpy, weft
        try:
            import _xxsubinterpreters as interpreters
        except ImportError:
            import _interpreters as interpreters
        context = weft.init()
        other = interpreters.create()
        code = (
            "try:\\n    import weft\\nexcept ImportError as error:\\n    print(error, flush=True)\\n"
        )
        for _ in range(2):
            interpreters.run_string(other, code)
        interpreters.destroy(other)
        assert context.allreduce(numpy.ones(3)).tolist() == [1, 1, 1]
        try:
            context.broadcast(numpy.ones(3), root=9)
        except weft.InvalidArgument:
            print("goes on")
        """
    )
    refused = "weft works in the main interpreter alone, and this is a subinterpreter"
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [refused, refused, "goes on"]


def test_a_subinterpreter_that_python_refuses_gets_the_same_text() -> None:
    done = alone(
        """
        import sys
        class Refuses:
            def find_spec(self, name, path=None, target=None):
                if name == "weft._core":
                    raise ImportError(f"module {name} does not support loading in subinterpreters")
        sys.meta_path.insert(0, Refuses())
        import weft
        """
    )
    refused = "ImportError: weft works in the main interpreter alone, and this is a subinterpreter"
    assert done.stderr.splitlines()[-1] == refused and "does not support" not in done.stderr


def test_importing_weft_imports_neither_torch_nor_networkx_and_prints_nothing() -> None:
    done = alone(
        """
        import sys, weft
        assert not {"torch", "networkx", "ml_dtypes"} & set(sys.modules)
        """
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_no_variable_of_the_environment_is_read_by_an_import() -> None:
    done = alone("import os; os.environ['WEFT_RANK'] = 'x'; import weft; print(weft.__version__)")
    assert done.returncode == 0 and done.stdout.strip() == "0.3.0"


def _run_module(*arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=LIMIT_S, **options
    )


def test_the_command_passes_arguments_and_status_on() -> None:
    done = _run_module("-m", "weft.run", "-n", "2", "--", "sh", "-c", 'echo "rank $WEFT_RANK"')
    assert "rank 0" in done.stdout and "rank 1" in done.stdout
    assert _run_module("-m", "weft.run", "-n", "1", "--", "sh", "-c", "exit 5").returncode != 0


def test_a_missing_program_is_an_error_that_says_so() -> None:
    program = """
        import weft.run
        weft.run.find_program = lambda: None
        weft.run.execute(["run"])
    """
    done = alone(program)
    assert done.returncode == 127 and "bin/weft" in done.stderr


def test_the_package_needs_the_systems_own_libraries_only() -> None:
    """libc, libstdc++ and what belongs to them; all else is looked up at run time."""
    folder = pathlib.Path(weft.__file__).parent
    binaries = [folder / "bin" / "weft", *folder.glob("_core*.so")]
    assert len(binaries) == 2
    for binary in binaries:
        text = subprocess.run(
            ["readelf", "--dynamic", str(binary)], capture_output=True, text=True, check=True
        ).stdout
        needed = re.findall(r"NEEDED.*\[(.*)\]", text)
        system = re.compile(r"lib(c|m|stdc\+\+|gcc_s|pthread|dl)\.so|ld-linux")
        assert [name for name in needed if not system.match(name)] == [], binary


def test_ranks_go_on_without_one_that_was_killed() -> None:
    done = as_processes(
        4,
        """
        import os, signal
        import numpy as np, weft
        config = weft.Config.from_environment()
        config.on_death = weft.OnDeath.skip
        ctx = weft.Context.create(config, weft.open_store(config))
        x = np.full(3, float(ctx.rank))
        ctx.barrier()
        if ctx.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        for call in (ctx.allreduce, ctx.neighbor_allreduce, ctx.broadcast, ctx.reduce, ctx.local_allreduce):
            try:
                call(x, needs_all=True)
            except weft.PeerDied as died:
                assert died.rank == 1, died
            else:
                print("ended well")
        mean = ctx.allreduce(x)[0]
        small = ctx.shrink()
        print("mean", mean, ctx.rank, ctx.members, small.rank, small.size)
        small.barrier()
        """,
        options=["--keep-going"],
    )
    assert done.returncode == 0, done.stderr
    for place, rank in enumerate((0, 2, 3)):
        assert f"mean {5 / 3} {rank} [0, 2, 3] {place} 3" in done.stdout, done.stdout + done.stderr
    assert "ended well" not in done.stdout


def test_a_rank_comes_back_with_the_state_of_a_neighbor() -> None:
    done = as_processes(
        3,
        """
        import os, signal
        import numpy as np, weft
        ctx = weft.init()
        model, step = np.full(5, float(ctx.rank)), np.zeros(1, np.int64)
        is_back = False
        while step[0] < 20 or len(ctx.members) < 3:
            is_back |= ctx.rank in ctx.admit([model, step])
            if ctx.rank == 1 and step[0] == 5 and not is_back:
                os.kill(os.getpid(), signal.SIGKILL)
            model = ctx.neighbor_allreduce(model)
            step += 1
        mean = ctx.allreduce(model)
        assert abs(mean - model).max() < 1e-3
        print("rank", ctx.rank, "is back" if is_back else "stayed", ctx.members)
        """,
        options=["--restart", "1"],
    )
    assert done.returncode == 0, done.stderr
    for rank, how in enumerate(("stayed", "is back", "stayed")):
        assert f"rank {rank} {how} [0, 1, 2]" in done.stdout, done.stdout + done.stderr
