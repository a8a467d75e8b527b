"""`python -m weft.run` and the command `weft`: the program `weft` of this package.

    python -m weft.run -n 4 -- python train.py       (as `weft run -n 4 -- python train.py`)
    weft devices
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import List, NoReturn, Optional


def find_program() -> Optional[str]:
    """The path of the program: that of this package, else one on PATH, else None."""
    packaged = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "weft")
    if os.access(packaged, os.X_OK):
        return packaged
    own = os.path.realpath(sys.argv[0])  # the command made by this package has the same name
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        found = shutil.which("weft", path=folder)
        if found is not None and os.path.realpath(found) != own and not _is_script(found):
            return found
    return None


def _is_script(path: str) -> bool:
    """Whether the file starts an interpreter, as the commands of other Python environments do."""
    try:
        with open(path, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return True


def execute(arguments: List[str]) -> NoReturn:
    """Replaces this process by the program. Exits with status 127 if there is none."""
    program = find_program()
    if program is None:
        print(
            "weft: this package has no program bin/weft, and there is none on PATH; "
            "install a wheel that has it, or build Weft with WEFT_TOOLS=ON",
            file=sys.stderr,
        )
        sys.exit(127)
    try:
        os.execv(program, ["weft", *arguments])
    except OSError as error:
        print(f"weft: {program} does not start: {error.strerror}", file=sys.stderr)
        sys.exit(126)


def main() -> NoReturn:
    """The command `weft`."""
    execute(sys.argv[1:])


if __name__ == "__main__":
    execute(["run", *sys.argv[1:]])
