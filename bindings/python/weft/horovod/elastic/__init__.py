"""hvd.elastic: a training that goes on after a failure, from its last commit.

    state = hvd.elastic.TorchState(model, optimizer, epoch=0)

    @hvd.elastic.run
    def train(state):
        for state.epoch in range(state.epoch, 90):
            ...
            state.commit()

    train(state)

What a failure leaves decides how it goes on. If all ranks are there, they join the job anew, and
restore the last commit. If a rank has died, the others end with its error, and the launcher starts
all ranks anew (torchrun --max-restarts). With HOROVOD_ELASTIC_COMMITS=FILE, rank 0 puts each commit
into the file too, and the new ranks go on from there.
"""

from __future__ import annotations

from weft.horovod.elastic._run import run
from weft.horovod.elastic.sampler import ElasticSampler
from weft.horovod.elastic.state import HostsUpdatedInterrupt, ObjectState, State, TorchState

__all__ = [
    "ElasticSampler",
    "HostsUpdatedInterrupt",
    "ObjectState",
    "State",
    "TorchState",
    "run",
]
