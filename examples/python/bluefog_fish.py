"""Listing 2 of the BlueFog paper with weft.torch: a school of fish, to be read beside the paper.

    weft run -n 6 -- python bluefog_fish.py

Each rank is a fish that measures, inexactly, in which direction and how far away a predator is. Fish
that are near each other average what they believe about its position, so the graph is another one
in each step. First the school escapes, then it encircles the predator.

The functions of the listing have the paper's names. What they do is written here, as the paper
leaves it out. Rank 0 prints how the story ends; exits with 1 if a fish is wrong about the predator,
or is not on the ring around it. ../fish is a longer story, which draws a film.
"""

from __future__ import annotations

import math
import sys
from typing import Dict, List, Tuple

import torch
import weft.torch as bf

DOUBLE = torch.float64
maxite = 300
gamma = 0.5  # step length of the estimate
threshold = 20.0  # fish that are nearer than that are neighbors
RING = 5.0  # the distance at which the fish encircle the predator
AFRAID = 9.0  # and the one at which they feel safe
RANDOM = torch.Generator()

Weights = Dict[int, float]
Motion = Tuple[torch.Tensor, torch.Tensor]  # x and v


def noise(size: float) -> float:
    return size * float(torch.randn(1, generator=RANDOM))


def get_locations(x: torch.Tensor) -> torch.Tensor:
    """Where each fish is; this stands for the eyes of the fish."""
    return bf.allgather(x.reshape(1, 2))


def get_neighbor_ranks(
    x: torch.Tensor, loc_map: torch.Tensor, threshold: float
) -> Tuple[List[int], Weights]:
    """The fish near this one, and how many neighbors each of them has, and this one."""
    is_near = torch.cdist(loc_map, loc_map) < threshold
    degrees = is_near.sum(1) - 1
    nb_ranks = [int(r) for r in (loc_map - x).norm(dim=1).lt(threshold).nonzero() if r != bf.rank()]
    return nb_ranks, {r: int(degrees[r]) for r in [*nb_ranks, bf.rank()]}


def get_mh_weights(nb_ranks: List[int], nb_degrees: Weights, rank: int) -> Tuple[float, Weights]:
    """Metropolis-Hastings: both ends of an edge give it the same weight, without a message."""
    src_weights = {r: 1 / (1 + max(nb_degrees[r], nb_degrees[rank])) for r in nb_ranks}
    return 1 - sum(src_weights.values()), src_weights


def get_dist_and_direct(x: torch.Tensor, w_star: torch.Tensor) -> Tuple[float, torch.Tensor]:
    away = x - w_star
    angle = math.atan2(float(away[1]), float(away[0])) + noise(0.02)
    d = float(away.norm()) * (1 + noise(0.02))
    return d, torch.tensor([math.cos(angle), math.sin(angle)], dtype=DOUBLE)


def cal_grad(x: torch.Tensor, w: torch.Tensor, d: float, u: torch.Tensor) -> torch.Tensor:
    """Of f(w) = [d - u . (x - w)]^2 / 2."""
    return (d - u.dot(x - w)) * u


def swim(x: torch.Tensor, v: torch.Tensor, urge: torch.Tensor) -> Motion:
    v = 0.5 * v + 0.5 * urge / max(1.0, float(urge.norm()))
    return x + v, v


def escape(x: torch.Tensor, v: torch.Tensor, w: torch.Tensor) -> Motion:
    return swim(x, v, (x - w) / (x - w).norm())


def encircle(x: torch.Tensor, v: torch.Tensor, w: torch.Tensor) -> Motion:
    out = (x - w) / (x - w).norm()
    around = torch.stack([-out[1], out[0]])
    return swim(x, v, (RING - (x - w).norm()) * out + 0.3 * around)


def main() -> int:
    torch.set_num_threads(1)
    bf.init()
    RANDOM.manual_seed(bf.rank() + 1)
    # A fish may hear any other one, if it is near enough: all edges, with weights in each call.
    bf.set_topology(bf.FullyConnectedGraph(bf.size()))

    # x: self location; v: self velocity; w: predator location;
    turn = 2 * math.pi * bf.rank() / bf.size()
    x = torch.tensor([6 * math.cos(turn), 4 * math.sin(turn)], dtype=DOUBLE)
    v = torch.zeros(2, dtype=DOUBLE)
    w = torch.tensor([20.0, 20.0], dtype=DOUBLE)  # a bad guess
    start = w_star = torch.tensor([1.0, 0.5], dtype=DOUBLE)
    nearest = 0.0  # fish to the predator, after the escape

    for k in range(maxite):
        loc_map = get_locations(x)
        nb_ranks, nb_degrees = get_neighbor_ranks(x, loc_map, threshold)

        # Set topology weights according to Metropolis-Hastings Rule.
        self_weight, src_weights = get_mh_weights(nb_ranks, nb_degrees, bf.rank())

        # observe noisy dist and direct to predator, which swims slowly
        w_star = start + torch.tensor([0.01, 0.02], dtype=DOUBLE) * k
        d, u = get_dist_and_direct(x, w_star)

        # estimate predator's position w with D-SGD
        grad = cal_grad(x, w, d, u)
        w = w - gamma * grad
        # Pull-style neighbor communication; the paper says x, and means w.
        w = bf.neighbor_allreduce(w, self_weight=self_weight, src_weights=src_weights)

        # take escape or encircle actions
        if k == maxite // 2:
            nearest = float((get_locations(x) - w_star).norm(dim=1).min())
        escap_cond = k < maxite // 2 and float((x - w).norm()) < AFRAID
        encircle_cond = k >= maxite // 2
        if escap_cond:
            x, v = escape(x, v, w)
        elif encircle_cond:
            x, v = encircle(x, v, w)

    wrong = float(bf.allgather((w - w_star).norm().reshape(1)).max())
    off = float(((get_locations(x) - w_star).norm(dim=1) - RING).abs().max())
    if bf.rank() == 0:
        print(f"after the escape all fish are at least {nearest:.1f} m from the predator")
        print(f"their beliefs are at most {wrong:.2f} m from it")
        print(f"they are at most {off:.2f} m from a ring of {RING:.0f} m around it", flush=True)
    bf.shutdown()
    return 0 if nearest > AFRAID - 1 and wrong < 0.5 and off < 1 else 1


if __name__ == "__main__":
    sys.exit(main())
