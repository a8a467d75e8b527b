"""Writes the sources that show of every header that it compiles alone and may be included twice.

A header compiles alone if it compiles after other headers that it includes itself: they are there either way. So a source
needs not be written for each header. One source includes a chain of headers: each of them includes, itself or through
others, everything that was included before it. For example

  #include "verbs/base/status.h"        needs <string>
  #include "verbs/transport/address.h"  includes status.h and <string>, and compiles after them as it would alone

Most headers include BASE. Their chains go to the folder `based`, and BASE may be precompiled for them. The others go to
`alone`. One more source, `together.cc`, includes all headers: it fails where two headers give one name to different things.

usage: headers.py ROOT LIST FOLDER: LIST is a file that names the headers, a line each, as they are included."""

import functools
import re
import sys
from pathlib import Path

BASE = "verbs/base/base.h"
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


def closures(root):
    """A function from a header to what it includes, through others too: the tree's files, itself among them, and <…>."""

    @functools.lru_cache(maxsize=None)
    def closure(header):
        found = {header}
        for own, other in INCLUDE.findall((root / header).read_text(encoding="utf-8")):
            found |= closure(own) if own and (root / own).is_file() else {own or f"<{other}>"}
        return frozenset(found)

    return closure


def chains(headers, closure):
    """As few chains as there can be: every header is the next one of another where that is possible (Kuhn's matching)."""
    follows = {}  # header: the one before it in its chain

    def place(before, tried):
        for after in sorted(headers):
            if after == before or after in tried or not closure(before) < closure(after):
                continue
            tried.add(after)
            if after not in follows or place(follows[after], tried):
                follows[after] = before
                return True
        return False

    for header in sorted(headers):
        place(header, set())
    last = set(headers) - set(follows.values())
    return [chain_to(header, follows) for header in sorted(last)]


def chain_to(header, follows):
    return (chain_to(follows[header], follows) if header in follows else []) + [header]


def sources(headers, closure):
    """What is to be written: texts by path."""
    based = {header for header in headers if BASE in closure(header)}
    texts = {"together.cc": "".join(f'#include "{header}"\n' for header in sorted(headers))}
    for folder, some in (("based", based), ("alone", set(headers) - based)):
        for chain in chains(some, closure):
            name = chain[-1].replace("/", ".")
            texts[f"{folder}/{name}.cc"] = "".join(f'#include "{header}"\n' * 2 for header in chain)
    return texts


def write(folder, texts):
    """Leaves alone what is there already, so that it is not compiled again, and removes what is too much."""
    for path in folder.rglob("*.cc"):
        if str(path.relative_to(folder)) not in texts:
            path.unlink()
    for name, text in texts.items():
        path = folder / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


def main():
    root, names, folder = map(Path, sys.argv[1:])
    headers = [each for each in names.read_text(encoding="utf-8").split() if (root / each).is_file()]
    write(folder, sources(headers, closures(root)))


if __name__ == "__main__":
    main()
