"""The rules of the tree that a compiler does not check. Each takes the root of a tree and returns its findings,
one line of text each; none means that the rule holds."""

import re
import subprocess
from pathlib import Path

# A file may include files of its own level's folder and of folders with a lower level.
LEVELS = {"include": -1, "verbs": 0, "topology": 1, "scheduler": 2, "engine": 3, "bindings": 4, "tools": 4, "examples": 4,
          "bench": 5, "tests": 6}
LAYERS = ("verbs", "topology", "scheduler", "engine")
MOST_LINES = 600
CODE = (".h", ".cc", ".cu")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def files(root, suffixes, folders=tuple(LEVELS)):
    """Paths below the folders, relative to the root, sorted."""
    found = (path for folder in folders for path in (root / folder).rglob("*"))
    return sorted(path.relative_to(root) for path in found if path.suffix in suffixes and path.is_file())


def numbered_lines(root, path):
    return enumerate((root / path).read_text(encoding="utf-8").splitlines(), start=1)


def matches(root, paths, pattern, meaning):
    return [f"{path}:{number}: {meaning}: {line.strip()}"
            for path in paths for number, line in numbered_lines(root, path) if pattern.search(line)]


def includes(root):
    """(file, line number, what is included) for every include of a file of this tree."""
    for path in files(root, CODE):
        for number, line in numbered_lines(root, path):
            if match := INCLUDE.match(line):
                yield path, number, Path(match.group(1))


def module(path):
    """The module that a file of a layer belongs to: its first two folders."""
    return "/".join(path.parts[:2]) if len(path.parts) > 2 else None


def wrong_include(path, target):
    """Why `path` must not include `target`, or None."""
    if len(target.parts) == 1 or target.parts[0] in (".", ".."):
        return f'"{target}" is not written from the top of the tree'
    home, other = path.parts[0], target.parts[0]
    if other not in LEVELS:
        return None  # another project's header
    if LEVELS[other] > LEVELS[home] or (LEVELS[other] == LEVELS[home] and other != home):
        return f'{home}/ must not include "{target}": includes only go down'
    private = other in LAYERS and module(path) != module(target) and target.stem != target.parent.name
    if private and home != "tests":  # a module's tests may look inside it
        return f'"{target}" is private to {module(target)}'
    return None


def cycle(graph):
    """Names along one cycle of the graph {name: names}, or an empty list."""
    done = set()

    def walk(name, trail):
        if name in trail:
            return trail[trail.index(name):] + [name]
        if name in done:
            return []
        done.add(name)
        found = (walk(other, trail + [name]) for other in sorted(graph.get(name, ())))
        return next((names for names in found if names), [])

    return next((names for names in (walk(name, []) for name in sorted(graph)) if names), [])


def layers(root):
    """Includes go down, name only public headers of other modules, and modules form no cycle."""
    findings, uses = [], {}
    for path, number, target in includes(root):
        if why := wrong_include(path, target):
            findings.append(f"{path}:{number}: {why}")
        if path.parts[0] in LAYERS and target.parts[0] in LAYERS and module(path) != module(target):
            uses.setdefault(module(path), set()).add(module(target))
    if names := cycle(uses):
        findings.append("modules include each other: " + " -> ".join(names))
    return findings


def size(root):
    """No file is too long to know one's way around in it."""
    paths = files(root, CODE + (".py", ".sh"))
    counted = ((path, sum(1 for _ in numbered_lines(root, path))) for path in paths)
    return [f"{path}: {lines} lines; at most {MOST_LINES}" for path, lines in counted if lines > MOST_LINES]


def sleep(root):
    """Tests wait for events or inject time; they do not sleep. (An interface's own sleep() waits for events.)"""
    pattern = re.compile(r"(this_thread::|time\.)sleep|(?<![\w.>])(?<!void )(u|nano|clock_nano)?sleep(_for)?\s*\("
                         r"|^\s*sleep\s+[\d$]")
    paths = [path for path in files(root, CODE + (".py", ".sh"), ("tests",)) if path.parts[1] != "style"]
    return matches(root, paths, pattern, "a test must not sleep")


def environment(root):
    """Only engine/config reads the environment."""
    pattern = re.compile(r"\b(secure_)?getenv\s*\(|\benviron\b")
    paths = [path for path in files(root, CODE) if path.parts[:2] != ("engine", "config")]
    return matches(root, paths, pattern, "only engine/config reads the environment")


def threads(root):
    """Weft's threads start in one place, verbs/base/thread.cc. Tests and examples stand for programs of users."""
    pattern = re.compile(r"\bstd::(thread\b(?!::hardware_concurrency)|jthread\b|async\b)|\bpthread_create\b")
    folders = [folder for folder in LEVELS if folder not in ("tests", "examples")]
    # The lane's two threads come next.
    # The Python module sees the public headers only, and lets Python's own end of a wait run beside the interpreter.
    allowed = {"verbs/base/thread.cc", "verbs/base/thread.h", "bindings/python/core/waiting.cc"}
    paths = [path for path in files(root, CODE, folders) if str(path) not in allowed]
    return matches(root, paths, pattern, "threads start by start_thread (verbs/base/thread.h)")


def sources(root):
    """Every source is listed in the CMakeLists.txt of its folder, or of one above it."""
    def listed(path):
        for folder in path.parents:
            lists = root / folder / "CMakeLists.txt"
            if lists.is_file() and str(path.relative_to(folder)) in re.split(r"[\s()]+", lists.read_text()):
                return True
        return False

    # Projects of users have a Makefile instead where they are not built by CMake.
    return [f"{path}: in no CMakeLists.txt" for path in files(root, (".cc", ".cu"))
            if not listed(path) and not (root / path.parent / "Makefile").is_file()]


def layout(root):
    """clang-format has nothing to change."""
    paths = [str(path) for path in files(root, CODE)]
    command = ["clang-format", "--dry-run", "-Werror", "--ferror-limit=1", *paths]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    return [line for line in done.stderr.splitlines() if ": error:" in line] or (
        [done.stderr] if done.returncode else [])


def anchors(path):
    """The names by which the headings of a page are linked to."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


def links(root):
    """Relative links in the documentation lead to files, and to headings."""
    pattern = re.compile(r"\]\(([^)#:]*)(?:#([^)]*))?\)")
    found = []
    documents = [Path("README.md"), *files(root, (".md",), ("docs", *LEVELS))]
    for path in filter(lambda path: (root / path).is_file(), documents):
        for number, line in numbered_lines(root, path):
            for name, anchor in pattern.findall(line):
                target = root / path.parent / name if name else root / path
                if not target.exists():
                    found.append(f"{path}:{number}: no such file: {name}")
                elif anchor and anchor not in anchors(target):
                    found.append(f"{path}:{number}: no such heading: {name}#{anchor}")
    return found


def modules(root):
    """The README of a layer has a row for each of its modules."""
    findings = []
    for layer in LAYERS:
        readme = root / layer / "README.md"
        if readme.is_file():
            named = set(re.findall(r"^\| `(\w+)` \|", readme.read_text(encoding="utf-8"), re.MULTILINE))
            there = {path.parts[1] for path in files(root, CODE, (layer,)) if len(path.parts) > 2}
            findings += [f"{layer}/README.md: no row for the module {name}" for name in sorted(there - named)]
            findings += [f"{layer}/README.md: no such module: {name}" for name in sorted(named - there)]
    return findings


def tests(root):
    """The cases of tests that the documentation names are there: `Suite.Name`, or `Suite.*`."""
    case = re.compile(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", re.MULTILINE)
    known = {pair for path in files(root, CODE, ("tests",)) for pair in case.findall((root / path).read_text(encoding="utf-8"))}
    suites = {suite for suite, _ in known}
    named = re.compile(r"`([A-Z]\w+)\.([A-Z]\w+|\*)`")
    pages = [path for path in files(root, (".md",), ("docs",)) if path.name in ("limits.md", "security.md")]
    return [f"{path}:{number}: no such test: {suite}.{name}"
            for path in pages for number, line in numbered_lines(root, path) for suite, name in named.findall(line)
            if (suite not in suites if name == "*" else (suite, name) not in known)]


RULES = {rule.__name__: rule for rule in (layers, size, sleep, environment, threads, sources, layout, links, modules, tests)}
