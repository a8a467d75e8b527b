"""Weights of one call, checked by BlueFog's rules and turned into arguments of Request."""

from __future__ import annotations

import operator
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Union

from weft._errors import InvalidArgument

Weights = Mapping[int, float]
Targets = Union[Mapping[int, float], Iterable[int]]


class Names(NamedTuple):
    """What the arguments are called, for messages."""

    operation: str
    sources: str
    targets: str


NEIGHBORS = Names("neighbor_allreduce", "src_weights", "dst_weights")
MACHINES = Names(
    "hierarchical_neighbor_allreduce", "src_machine_weights", "dst_machine_weights"
)


def options(
    names: Names,
    self_weight: Optional[float],
    sources: Optional[Weights],
    targets: Optional[Targets],
) -> Dict[str, Any]:
    """The weights as arguments of Request; an empty dictionary: those of the graph.

    Raises InvalidArgument unless self_weight and sources are given together, and targets only with
    both.
    """
    if self_weight is None and sources is None and targets is None:
        return {}
    what = names.operation
    if self_weight is None or sources is None:
        raise InvalidArgument(
            f"{what}: self_weight and {names.sources} have to be given together"
            + ("" if targets is None else f", and {names.targets} needs both")
        )
    if not isinstance(sources, Mapping):
        raise InvalidArgument(
            f"{what}: {names.sources} has to be a dictionary from ranks to weights, not "
            f"{type(sources).__name__}"
        )
    result: Dict[str, Any] = {
        "self_weight": _weight(what, "self_weight", self_weight),
        "sources": _by_rank(what, names.sources, sources),
    }
    if targets is not None:
        result["destinations"] = by_rank(what, names.targets, targets)
    return result


def by_rank(what: str, name: str, given: Optional[Targets]) -> Optional[Dict[int, float]]:
    """{rank: weight} or ranks, for 1.0 each, as a dictionary; None: None."""
    if given is None:
        return None
    if not isinstance(given, Mapping):
        return dict.fromkeys(ranks(what, name, given), 1.0)
    return _by_rank(what, name, given)


def ranks(what: str, name: str, given: Iterable[int]) -> List[int]:
    """The ranks as a list of int. Raises InvalidArgument for other things and for duplicates."""
    try:
        result = [_rank(what, name, each) for each in given]
    except TypeError:
        raise InvalidArgument(
            f"{what}: {name} has to be a list of ranks, not {type(given).__name__}"
        ) from None
    if len(set(result)) != len(result):
        raise InvalidArgument(f"{what}: {name}={result} has a rank twice")
    return result


def _by_rank(what: str, name: str, given: Weights) -> Dict[int, float]:
    return {_rank(what, name, rank): _weight(what, name, w) for rank, w in given.items()}


def _rank(what: str, name: str, given: Any) -> int:
    try:
        return operator.index(given)  # also of NumPy's integers
    except TypeError:
        raise InvalidArgument(f"{what}: {name} has {given!r} in place of a rank") from None


def _weight(what: str, name: str, given: Any) -> float:
    try:
        return float(given)
    except (TypeError, ValueError):
        raise InvalidArgument(f"{what}: {name} has {given!r} in place of a weight") from None
