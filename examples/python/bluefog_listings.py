"""The listings of the BlueFog paper with weft.torch, to be read beside the paper.

    weft run -n 4 -- python bluefog_listings.py                   # all of these
    weft run -n 4 -- python bluefog_listings.py exact_diffusion   # one of them

    dgd                 Listing 1    decentralized gradient descent
    push_sum            Listing 3    the mean of all ranks' vectors; no rank waits for another
    overlap             Listing 5    the exchange runs while the gradient is computed
    exact_diffusion     Listing 6    as Listing 1, and ends at the solution itself
    gradient_tracking   Listing 7    push-sum gradient tracking; each step has another graph
    sgp                 Algorithm 1 of Stochastic Gradient Push (Assran et al., 2019)

bluefog_fish.py is Listing 2, and digits.py is Listing 4 (--optimizer atc).

Variables have the names that they have in the paper. A comment tells where a line differs, and why.
All but push_sum fit one linear model to the data of all ranks (the paper's equation 15). Rank 0
prints how far the worst rank is from the right result. Exits with 1 if that is too far.
"""

from __future__ import annotations

import argparse
import sys
from typing import Callable, Dict, Iterator, List, NamedTuple, Tuple

import torch
import weft.torch as bf
from weft import topology as topology_util  # in BlueFog: bluefog.common.topology_util

FEATURES = 5
SAMPLES = 20  # of each rank
DOUBLE = torch.float64


class Task(NamedTuple):
    A: torch.Tensor
    b: torch.Tensor
    x_opt: torch.Tensor  # of all ranks' data


def make_task() -> Task:
    """Ranks have different data, and so, alone, different solutions."""
    random = torch.Generator().manual_seed(bf.rank() + 1)
    A = torch.randn(SAMPLES, FEATURES, dtype=DOUBLE, generator=random) / SAMPLES**0.5
    noise = torch.randn(SAMPLES, 1, dtype=DOUBLE, generator=random)
    b = A.mm(torch.ones(FEATURES, 1, dtype=DOUBLE)) + 0.2 * noise
    x_opt = torch.linalg.solve(bf.allreduce(A.t().mm(A)), bf.allreduce(A.t().mm(b)))
    return Task(A, b, x_opt)


def worst(distance: torch.Tensor) -> float:
    """The largest distance of all ranks, at all ranks."""
    return float(bf.allgather(distance.reshape(1)).max())


def from_solution(x: torch.Tensor, x_opt: torch.Tensor) -> float:
    return worst((x - x_opt).norm() / x_opt.norm())


def dgd(maxite: int = 600, gamma: float = 0.05) -> float:
    A, b, x_opt = make_task()
    x = torch.zeros_like(x_opt)

    # The static exponential graph.
    G = bf.ExponentialTwoGraph(bf.size())
    bf.set_topology(G)

    for _ in range(maxite):
        grad_local = A.t().mm(A.mm(x) - b)  # local gradient
        y = x - gamma * grad_local  # local update
        x = bf.neighbor_allreduce(y)  # partial averaging
    return from_solution(x, x_opt)


def push_sum(max_iters: int = 100) -> float:
    random = torch.Generator().manual_seed(bf.rank() + 1)
    x = torch.rand(1000, dtype=DOUBLE, generator=random)
    mean = bf.allreduce(x)  # only for comparison
    bf.set_topology(bf.ExponentialTwoGraph(bf.size()))

    p = torch.ones(1, dtype=DOUBLE)  # the weight of x, moved as its last element
    x_ext = torch.cat([x, p], 0)
    bf.win_create(x_ext, name="x_ext", zero_init=True)

    # The shares of a rank sum to 1.
    outdegree = len(bf.out_neighbor_ranks())
    dst_weights = {rank: 1.0 / (outdegree + 1) for rank in bf.out_neighbor_ranks()}
    self_weight = 1 / (1 + outdegree)

    for i in range(max_iters):
        bf.win_accumulate(
            x_ext,
            name="x_ext",
            self_weight=self_weight,
            dst_weights=dst_weights,
            require_mutex=True,
        )
        bf.win_update_then_collect(name="x_ext")
        x, associated_p = x_ext[:-1], x_ext[-1]
        # Not in the paper. On a machine with few cores a rank could end before another one begins,
        # and then nothing would mix.
        if i % 5 == 4:
            bf.barrier()

    bf.barrier()  # ranks may end at different times
    bf.win_update_then_collect(name="x_ext")
    bf.win_free(name="x_ext")
    # What was lost or counted twice would be missing in the sum of all p.
    mass = bf.allreduce(associated_p.reshape(1), average=False)
    return max(worst((x / associated_p - mean).abs().max()), abs(float(mass) - bf.size()))


def overlap(maxite: int = 600, lr: float = 0.05) -> float:
    A, b, x_opt = make_task()
    x = torch.zeros_like(x_opt)

    def ComputeGradient(x: torch.Tensor) -> torch.Tensor:
        return A.t().mm(A.mm(x) - b)

    # Listing 5 is the body of this loop. Its weights are those of the one-peer exponential graphs.
    dynamic_neighbor_gen = topology_util.GetDynamicOnePeerSendRecvRanks(
        topology_util.ExponentialTwoGraph(bf.size()), bf.rank()
    )
    for _ in range(maxite):
        dst_neighbors, src_neighbors = next(dynamic_neighbor_gen)
        self_weight = 1 / (len(src_neighbors) + 1)
        src_weights = {rank: self_weight for rank in src_neighbors}
        dst_weights = {rank: 1.0 for rank in dst_neighbors}

        handle = bf.neighbor_allreduce_nonblocking(
            x, self_weight=self_weight, src_weights=src_weights, dst_weights=dst_weights
        )
        grad = ComputeGradient(x)  # while x travels
        x = bf.wait(handle) - lr * grad
    return from_solution(x, x_opt)


def exact_diffusion(maxite: int = 600, gamma: float = 0.3) -> float:
    A, b, x_opt = make_task()
    x = torch.zeros_like(x_opt)
    pre_psi = x.clone()

    # The static ring graph.
    G = topology_util.RingGraph(bf.size())
    bf.set_topology(G)

    for _ in range(maxite):
        grad_local = A.t().mm(A.mm(x) - b)  # local gradient
        psi = x - gamma * grad_local  # local update
        phi = psi + x - pre_psi  # bias correction
        # On a ring W will do, as here. On other graphs it may have eigenvalues below -1/3, and then
        # takes (I + W)/2 in its place: ../regression/exact_diffusion.cc.
        x = bf.neighbor_allreduce(phi)  # partial averaging
        pre_psi = psi.clone()
    return from_solution(x, x_opt)


Step = Tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
Peers = Iterator[Tuple[List[int], List[int]]]  # to whom and from whom, step by step


def Gradient_tracking_one_step(
    x: torch.Tensor,
    y: torch.Tensor,
    u: torch.Tensor,
    v: torch.Tensor,
    prev_grad_local: torch.Tensor,
    dynamic_neighbor_gen: Peers,
    A: torch.Tensor,
    b: torch.Tensor,
    gamma: float = 1e-2,
) -> Step:
    # Columns of W^k sum to 1: a rank keeps a share and gives the same share to each receiver.
    dst_neighbors, src_neighbors = next(dynamic_neighbor_gen)
    src_weights = {r: 1.0 for r in src_neighbors}
    self_weight = 1 / (len(dst_neighbors) + 1)
    dst_weights = {r: self_weight for r in dst_neighbors}

    def mix(value: torch.Tensor) -> torch.Tensor:
        return bf.neighbor_allreduce(
            value, self_weight=self_weight, src_weights=src_weights, dst_weights=dst_weights
        )

    # u_{k+1} = W^k (u_k - gamma y_k)
    w = u - gamma * y
    u_new = mix(w)

    # v_{k+1} = W^k v_k, the correction
    v_new = mix(v)

    # x_{k+1} = u_{k+1} / v_{k+1}, element by element
    x_new = u_new / v_new

    # y_{k+1} = W^k (y_k + the new gradient - the old one)
    grad_local = A.t().mm(A.mm(x_new) - b)
    q = y + grad_local - prev_grad_local
    y_new = mix(q)

    return x_new, y_new, u_new, v_new, grad_local


def gradient_tracking(maxite: int = 1200, gamma: float = 0.1) -> float:
    A, b, x_opt = make_task()
    x = torch.zeros_like(x_opt)
    u, v = x.clone(), torch.ones_like(x)
    prev_grad_local = A.t().mm(A.mm(x) - b)
    y = prev_grad_local.clone()

    # The grid, of which each step has one edge out of each rank.
    bf.set_topology(topology_util.MeshGrid2DGraph(bf.size()))
    dynamic_neighbor_gen = topology_util.GetDynamicOnePeerSendRecvRanks(
        bf.load_topology(), bf.rank()
    )

    for _ in range(maxite):
        x, y, u, v, prev_grad_local = Gradient_tracking_one_step(
            x, y, u, v, prev_grad_local, dynamic_neighbor_gen, A, b, gamma=gamma
        )
    return from_solution(x, x_opt)


def sgp(maxite: int = 1500, gamma: float = 0.2, batch: int = 5) -> float:
    """Lines 2 to 8 of Algorithm 1; p_ji is the share of rank i that goes to rank j."""
    A, b, x_opt = make_task()
    random = torch.Generator().manual_seed(bf.rank() + 1)
    x = torch.zeros_like(x_opt)
    w = torch.ones(1, 1, dtype=DOUBLE)
    z = x.clone()

    # The one-peer exponential graphs of its appendix A.
    dynamic_neighbor_gen = topology_util.GetDynamicOnePeerSendRecvRanks(
        topology_util.ExponentialTwoGraph(bf.size()), bf.rank()
    )
    for k in range(maxite):
        # The gradient of a mini-batch at z.
        rows = torch.randperm(SAMPLES, generator=random)[:batch]
        grad = SAMPLES / batch * A[rows].t().mm(A[rows].mm(z) - b[rows])
        # The paper's gamma falls in steps, as is usual for images; this one falls slowly.
        x = x - gamma / (1 + k / 50) * grad

        dst_neighbors, src_neighbors = next(dynamic_neighbor_gen)
        p = 1 / (len(dst_neighbors) + 1)
        # x and w travel in one message.
        sums = bf.neighbor_allreduce(
            torch.cat([x, w]),
            self_weight=p,
            src_weights={j: 1.0 for j in src_neighbors},
            dst_weights={j: p for j in dst_neighbors},
        )
        x, w = sums[:-1], sums[-1:]
        z = x / w
    return from_solution(z, x_opt)


# How far each may be from the right result. DGD ends beside the solution, at a distance that grows
# with gamma, as does SGP with mini-batches.
LISTINGS: Dict[str, Tuple[Callable[[], float], float]] = {
    "dgd": (dgd, 0.05),
    "push_sum": (push_sum, 1e-9),
    "overlap": (overlap, 0.05),
    "exact_diffusion": (exact_diffusion, 1e-9),
    "gradient_tracking": (gradient_tracking, 1e-6),
    "sgp": (sgp, 0.05),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    known = ", ".join(LISTINGS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"all, or some of: {known}")
    names = parser.parse_args().names or list(LISTINGS)
    unknown = [name for name in names if name not in LISTINGS]
    if unknown:
        parser.error(f"there is no listing {unknown[0]!r}; there are {known}")

    torch.set_num_threads(1)
    bf.init()
    wrong = 0
    for name in names:
        run, most = LISTINGS[name]
        distance = run()
        is_right = distance <= most
        wrong += not is_right
        if bf.rank() == 0:
            verdict = "" if is_right else f"; expected at most {most:.0e}"
            print(f"{name}: {distance:.1e} from the right result{verdict}", flush=True)
    bf.shutdown()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
