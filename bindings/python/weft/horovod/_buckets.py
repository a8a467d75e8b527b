"""Buckets: the names of an optimizer's parameters, and which of them travel together."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch

from weft.horovod._objects import Parameters

Groups = Union[None, int, Sequence[Sequence[torch.Tensor]]]


class Bucket(NamedTuple):
    """Parameters whose gradients travel as one group."""

    name: str
    parameters: List[torch.Tensor]


def parameters_of(param_groups: List[Dict[str, Any]]) -> List[torch.Tensor]:
    """The parameters of an optimizer that are trained."""
    return [each for group in param_groups for each in group["params"] if each.requires_grad]


def names_of(
    parameters: List[torch.Tensor], named_parameters: Optional[Parameters]
) -> Dict[torch.Tensor, str]:
    """The names under which gradients are submitted, the same on all ranks."""
    if named_parameters is None:
        return {each: f"gradient.{place}" for place, each in enumerate(parameters)}
    pairs = named_parameters.items() if isinstance(named_parameters, dict) else named_parameters
    names = {each: f"gradient.{name}" for name, each in pairs}
    missing = sum(each not in names for each in parameters)
    if missing:
        raise ValueError(f"named_parameters lacks {missing} of the optimizer's parameters")
    if len(set(names.values())) != len(names):
        raise ValueError("named_parameters has a name twice")
    return names


def cut(pairs: List[Tuple[str, torch.Tensor]], groups: Groups) -> List[Bucket]:
    """Groups of parameters of one type; a parameter in no group is by itself."""
    if not groups:
        return [Bucket(name, [each]) for name, each in pairs]
    buckets: List[Bucket] = []
    if isinstance(groups, int):
        length = max(-(-len(pairs) // min(groups, max(len(pairs), 1))), 1)
        lists = [pairs[start : start + length] for start in range(0, len(pairs), length)]
    else:
        place = _places(groups)
        lists = [[] for _ in groups]
        for pair in pairs:
            if id(pair[1]) in place:
                lists[place[id(pair[1])]].append(pair)
        buckets = [Bucket(name, [each]) for name, each in pairs if id(each) not in place]
    for members in filter(None, lists):
        by_type: Dict[torch.dtype, List[torch.Tensor]] = {}
        for _, each in members:
            by_type.setdefault(each.dtype, []).append(each)
        first = members[0][0]
        buckets += [Bucket(f"{first}.group.{kind}", part) for kind, part in by_type.items()]
    return buckets


def _places(groups: Sequence[Sequence[torch.Tensor]]) -> Dict[int, int]:
    """The group of each parameter, by its id."""
    place: Dict[int, int] = {}
    for k, group in enumerate(groups):
        for each in group:
            if not isinstance(each, torch.Tensor):
                raise ValueError(f"groups are lists of tensors, not of {type(each).__name__}")
            if id(each) in place:
                raise ValueError("a parameter is in groups twice")
            place[id(each)] = k
    return place
