"""Groups the sources of each target that may be compiled as one (a unity build), and prints `TARGET GROUP SOURCE` lines.

Names in an anonymous namespace are private to a source. Sources compiled as one share them, so a source joins a group only
if none of its private names means something in another source of the group or in the headers of that source, and the other
way round. Private names are found by the layout that clang-format gives: what stands in the first column between
`namespace {` and `}  // namespace`. A source that defines a macro, or that several targets of a folder have, joins none.

usage: unity.py ROOT MOST LIST: MOST sources in a group; LIST names a file with a target's folder, name and sources, divided by
semicolons, in each line."""

import collections
import functools
import re
import sys
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
MACRO = re.compile(r"^\s*#\s*define\b", re.MULTILINE)
NOISE = re.compile(r"\[\[.*?\]\]|alignas\([^)]*\)|\bfinal\b")
NO_NAMES = ("namespace", "template", "operator", "extern", "return")


def name_in(line):
    """What a line that begins a declaration declares, or None: a member's definition, a test, anything else."""
    if not re.match(r"[A-Za-z_\[]", line) or re.match(r"[A-Z_]{4,}\w*\(", line):
        return None
    head = re.split(r"[({=;]|(?<!:):(?!:)", NOISE.sub("", line), maxsplit=1)[0]
    found = re.search(r"(::)?\b([A-Za-z_]\w*)\s*(?:\[.*)?$", head)
    if not found or found[2] in NO_NAMES or (found[1] and not line.startswith("using")):
        return None
    return found[2]


def names(text):
    """(private, shared): names that a file declares in anonymous namespaces or as static, and elsewhere."""
    found = (set(), set())
    anonymous = False
    for line in text.splitlines():
        if line in ("namespace {", "}  // namespace"):
            anonymous = line.startswith("namespace")
        elif name := name_in(line):
            is_private = anonymous or line.startswith(("static ", "using "))
            found[0 if is_private else 1].add(name)
    return found


class Source:
    def __init__(self, root, path):
        text = Path(path).read_text(encoding="utf-8")
        self.path, self.may_join = path, not MACRO.search(text)
        self.private, shared = names(text)
        self.known = shared.union(self.private, *(declared(root, each) for each in INCLUDE.findall(text)))

    def clashes(self, other):
        return not self.private.isdisjoint(other.known) or not other.private.isdisjoint(self.known)


@functools.lru_cache(maxsize=None)
def declared(root, header):
    """Names that a header of the tree declares, or those that it includes."""
    path = Path(root, header)
    if not path.is_file():
        return frozenset()
    text = path.read_text(encoding="utf-8")
    private, shared = names(text)
    return frozenset(shared.union(private, *(declared(root, each) for each in INCLUDE.findall(text))))


def groups(sources, most):
    made = []
    for source in sources:
        fits = (group for group in made if len(group) < most and not any(map(source.clashes, group)))
        if group := next(fits, None):
            group.append(source)
        elif source.may_join:
            made.append([source])
    return [group for group in made if len(group) > 1]


def grouped(root, most, targets):
    """(target, number, path) for every source in a group. `targets`: (folder, name, paths of sources)."""
    uses = collections.Counter((folder, path) for folder, _, paths in targets for path in paths)
    for folder, name, paths in targets:
        own = [Source(root, path) for path in paths if uses[folder, path] == 1]
        for number, group in enumerate(groups([source for source in own if source.may_join], most)):
            yield from ((name, number, source.path) for source in group)


def main():
    root, most, listed = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    lines = [line.split(";") for line in listed.read_text(encoding="utf-8").splitlines()]
    for found in grouped(root, most, [(folder, name, paths) for folder, name, *paths in lines]):
        print(*found)


if __name__ == "__main__":
    main()
