"""Runs the Python of README.md and docs/ on the ranks of a job, in the order of the pages, with what the
text around it speaks of: arrays, a model, an optimizer. test_pages.py starts it."""

from __future__ import annotations

import http.server
import os
import pathlib
import re
import socket
from typing import Any, Dict

import numpy as np
import torch
import weft
import weft.torch as bf

ROOT = pathlib.Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Model(torch.nn.Linear):
    """A model of PyTorch that also has the methods of the samples."""

    def gradient(self, z: Any) -> Any:
        return 0.1 * z

    def descend(self, x: Any) -> None:
        x -= 0.1 * x


class Server(http.server.HTTPServer):
    """Answers nobody, and does not wait for anybody."""

    def __init__(self, address: Any, handler: Any) -> None:
        super().__init__((address[0], 0), handler)

    def serve_forever(self, poll_interval: float = 0.5) -> None:
        self.server_close()


def around(text: str) -> Dict[str, Any]:
    """The names that a sample takes from the text around it."""
    model = Model(4, 2)
    x = weft.zeros(8, np.float32)
    return {
        "np": np,
        "torch": torch,
        "weft": weft,
        "bf": bf,
        "ctx": weft.init(),
        "x": torch.from_numpy(x) if "bf." in text else x,
        "y": np.zeros_like(x),
        "z": np.zeros_like(x),
        "w": np.ones(3),
        "b": np.ones(2),
        "rate": 0.1,
        "gradient": lambda x: 0.1 * x,
        "gradients": {"head": np.ones(3), "tail": np.ones(5)},
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
    }


def play_torchrun(ctx: weft.Context) -> None:
    """The variables from which torch.distributed learns its ranks."""
    port = np.zeros(1, np.int64)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port[0] = free.getsockname()[1]
    ctx.broadcast(port, out=port, root=0)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port[0]))
    os.environ.update(RANK=str(ctx.rank), WORLD_SIZE=str(ctx.size))


def main() -> None:
    bf.init()
    play_torchrun(weft.init())
    http.server.HTTPServer = Server  # type: ignore[misc]
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for number, text in enumerate(BLOCK.findall(page.read_text(encoding="utf-8"))):
            name = f"{page.name}[{number}]"
            exec(compile(text, name, "exec"), around(text))
            bf.win_free()
    print("passed pages", flush=True)


main()
