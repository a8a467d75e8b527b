"""How the ranks of a process group, or of a job of torchrun, find each other: torch's store tells them.

Rank 0 of the group holds Weft's rendezvous. It puts the address, and a secret that it makes for
this group alone, into torch's store. Each rank first puts there where it runs. So rank 0 can choose
an address that all of them reach, and each rank learns which ranks are on its machine.

Whoever can read torch's store can read the secret, until the last rank has read it and deletes it.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from datetime import timedelta
from typing import Any, Dict, FrozenSet, List, Tuple, Type, TypeVar

from torch._C._distributed_c10d import PrefixStore, Store, TCPStore

from weft import _core
from weft._context import Context
from weft._errors import InvalidArgument, OperatingSystem, TimedOut, Unavailable

AnyContext = TypeVar("AnyContext", bound=_core.Context)

_PORTS_TRIED = 16  # a port that was free may be taken by another process before it is used
_SLACK = timedelta(seconds=5)  # rank 0 finds out first who is missing, and tells the others
_LONGEST_MS = 86_400_000  # of Config.deadline_ms

# What a rank's place among the others decides; the variables say it of another job.
_PLACE = frozenset(
    "WEFT_" + name
    for name in (
        "LAUNCHER",
        "RANK",
        "SIZE",
        "LOCAL_RANK",
        "LOCAL_SIZE",
        "RENDEZVOUS",
        "RENDEZVOUS_SERVER",
        "JOB_KEY",
    )
)
# What a process group says itself.
_OF_GROUP = frozenset(("WEFT_DEADLINE_MS", "WEFT_PROGRESS"))


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.readline().strip()
    except OSError:
        return ""


def _settings(left_out: FrozenSet[str]) -> _core.Config:
    """A Config with what the WEFT_* variables of this process say, but for those that are left out."""
    entries = [
        f"{name}={value}"
        for name, value in os.environ.items()
        if name.startswith("WEFT_") and name not in left_out
    ]
    if not entries:
        return _core.Config()
    return _core.Config.from_entries([*entries, "WEFT_LAUNCHER=alone"])


def _here(config: _core.Config) -> Dict[str, str]:
    """Where this rank runs: its machine, and the network in which it would listen."""
    boot = _first_line("/proc/sys/kernel/random/boot_id") or socket.gethostname()
    try:
        network = os.readlink("/proc/self/ns/net")
    except OSError:
        network = socket.gethostname()
    return {
        "machine": config.host or f"{socket.gethostname()}/{boot}",
        "network": f"{boot}/{network}",
    }


def _master_of(store: Store) -> Tuple[str, int]:
    """Host and port of torch's own rendezvous; ("", 0) if it has none."""
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    if isinstance(store, TCPStore):
        return store.host, store.port
    return os.environ.get("MASTER_ADDR", ""), 1


def _source_address(host: str, port: int) -> str:
    """The address with which this machine reaches a host; "" if there is no way. Sends nothing."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except OSError:
        return ""
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.connect(address)
                return str(probe.getsockname()[0])
        except OSError:
            continue
    return ""


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


def _address_for(store: Store, is_one_network: bool) -> str:
    """The address at which the other ranks reach this one."""
    if is_one_network:
        return "127.0.0.1"
    # The second is an address that exists nowhere: the way to it is the default route.
    for host, port in (_master_of(store), ("192.0.2.1", 1)):
        found = _source_address(host, port) if host else ""
        if found and not _is_loopback(found) and "%" not in found:
            return found
    raise Unavailable(
        "the ranks are on several machines, and this machine has no address that the others reach; "
        "set MASTER_ADDR to one"
    )


def _with_port(host: str) -> str:
    """host:port with a port that is free now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        port = probe.getsockname()[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _host(config: _core.Config, host: str) -> _core.Store:
    """Opens the rendezvous at a free port of `host`, and writes its address into the Config."""
    for attempt in range(_PORTS_TRIED):
        config.rendezvous = _with_port(host)
        try:
            return _core.open_store(config)
        except OperatingSystem:
            if attempt + 1 == _PORTS_TRIED:
                raise
    raise AssertionError  # not reached


class _Table:
    """The part of torch's store that belongs to one creation of one group."""

    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta) -> None:
        # A store may outlive a group of the same name: torchrun's does. So each rank counts how
        # often it has created the group. All ranks count alike, because creating is collective.
        times = store.add(f"weft/times/{rank}", 1)
        self._store: Any = PrefixStore(f"weft/{times}", store)
        self._size = size
        self._timeout = timeout

    def put(self, key: str, value: Any) -> None:
        self._store.set(key, json.dumps(value))

    def places(self, own: Dict[str, str]) -> List[Dict[str, str]]:
        """Where each rank runs. Waits for all of them. Raises TimedOut with the missing ranks."""
        keys = [f"at/{rank}" for rank in range(self._size)]
        self.put(keys[0], own)
        try:
            self._store.wait(keys, self._timeout)
        except Exception as error:
            missing = [rank for rank, key in enumerate(keys) if not self._store.check([key])]
            if not missing:
                raise
            timed_out = TimedOut(
                f"rank {', '.join(map(str, missing))} of the group of {self._size} ranks did not "
                f"come within {self._timeout.total_seconds():g} s"
            )
            timed_out.rank = missing[0]
            raise timed_out from error
        if self._store.has_extended_api():
            values = self._store.multi_get(keys)
        else:
            values = [self._store.get(key) for key in keys]
        return [json.loads(value) for value in values]

    def job(self) -> Dict[str, Any]:
        """What rank 0 has put. Raises what rank 0 said if it could not."""
        try:
            self._store.wait(["job"], self._timeout + _SLACK)
        except Exception as error:
            timed_out = TimedOut("rank 0 of the group did not put its address into torch's store")
            timed_out.rank = 0
            raise timed_out from error
        job: Dict[str, Any] = json.loads(self._store.get("job"))
        if self._store.add("readers", 1) == self._size - 1:
            self._store.delete_key("job")
        if "failure" in job:
            raise Unavailable(f"rank 0 of the group: {job['failure']}")
        return job


def _lead(config: _core.Config, table: _Table, store: Store) -> _core.Store:
    """Rank 0: opens the rendezvous and tells the others."""
    config.job_key = secrets.token_hex(32)
    try:
        places = table.places(_here(config))
        machines = [place["machine"] for place in places]
        _set_local(config, machines)
        is_one_network = len({place["network"] for place in places}) == 1
        opened = _host(config, _address_for(store, is_one_network))
    except Exception as error:
        table.put("job", {"failure": str(error)})
        raise
    job = {"address": config.rendezvous, "key": config.job_key, "machines": machines}
    table.put("job", job)
    return opened


def _follow(config: _core.Config, table: _Table) -> _core.Store:
    """Every other rank: waits for what rank 0 tells."""
    table.put(f"at/{config.rank}", _here(config))
    job = table.job()
    config.rendezvous, config.job_key = job["address"], job["key"]
    _set_local(config, job["machines"])
    return _core.open_store(config)


def _set_local(config: _core.Config, machines: List[str]) -> None:
    """Fills in the rank's place on its machine, from the machine of each rank of the group."""
    mine = machines[config.rank]
    config.local_rank = machines[: config.rank].count(mine)
    config.local_size = machines.count(mine)
    # Ranks of the job that are not in the group use cores too.
    job_here = os.environ.get("LOCAL_WORLD_SIZE", "")
    if config.local_cores == 0 and job_here.isdigit() and int(job_here) > config.local_size:
        cores = len(os.sched_getaffinity(0)) * config.local_size // int(job_here)
        config.local_cores = max(1, cores)


def join(store: Store, rank: int, size: int, timeout: timedelta, name: str) -> _core.Context:
    """Makes the context of a process group. Collective: all ranks of the group call it.

    Args:
        store: torch's store with the group's own prefix.
        timeout: bound of this call, and of each wait of the context; at most a day.
        name: of the group, for the timeline's file.

    Raises:
        TimedOut: a rank did not come; `.rank` is the first of them.
        Unavailable: rank 0 could not hold the rendezvous; the text says why.
    """
    if timeout <= timedelta(0):
        raise InvalidArgument(f"timeout={timeout}: must be more than zero")
    config = _settings(_PLACE | _OF_GROUP)
    config.launcher_reason = "torch.distributed"
    config.deadline_ms = min(max(int(timeout.total_seconds() * 1000), 1), _LONGEST_MS)
    config.deadline_name = "the timeout of the group"
    config.progress = _core.ProgressMode.thread  # futures are completed while nobody waits
    if config.trace and name not in ("", "0"):
        config.trace += f".group-{name}"
    return _meet(config, rank, size, store, timeout, _core.Context)


def join_torchrun() -> Context:
    """Makes the context of a job that torchrun has started, whose agent has a store. Collective.

    The store carries the rendezvous and its secret, so WEFT_JOB_KEY is not needed. After a restart of
    the ranks by torchrun, which goes on with the same store, they meet anew.

    Raises:
        TimedOut: a rank did not come within WEFT_DEADLINE_MS; `.rank` is the first of them.
        Unavailable: rank 0 could not hold the rendezvous, or the agent cannot be reached.
    """
    config = _settings(_PLACE)
    config.launcher_reason = "the store of torchrun's agent"
    timeout = timedelta(milliseconds=config.deadline_ms)
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    try:
        agent = TCPStore(host, port, is_master=False, timeout=timeout)
    except Exception as error:
        raise Unavailable(f"torchrun's agent at {host}:{port} cannot be reached: {error}") from error
    store = PrefixStore(f"weft/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", agent)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    return _meet(config, rank, size, store, timeout, Context)


def _meet(
    config: _core.Config,
    rank: int,
    size: int,
    store: Store,
    timeout: timedelta,
    kind: Type[AnyContext],
) -> AnyContext:
    """The context of the ranks that meet at the store."""
    config.rank, config.size = rank, size
    if size == 1:
        config.launcher = _core.Launcher.alone
        return kind.create(config, _core.open_store(config))
    config.launcher = _core.Launcher.weft
    config.served_by = _core.ServedBy.rank0
    table = _Table(store, rank, size, timeout)
    opened = _lead(config, table, store) if rank == 0 else _follow(config, table)
    context = kind.create(config, opened)
    # A rank that leaves at once must not leave before the others are in.
    context.run_raw(_core.Request(int(_core.Collective.barrier), 0, 0, 0, 0, 0))
    return context
