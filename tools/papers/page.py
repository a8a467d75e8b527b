"""The report on one paper: sections with tables and pictures, printed as they come and kept as a page of docs/papers."""

import shlex
import sys
import textwrap

from figures.runs import ROOT, rows_of

LIMIT_S = 600  # of one command


def number(value, digits=2):
    """A number as a reader wants it: 1,024, 12.3, 0.25."""
    if value is None:
        return "—"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{digits}f}"


class Page:
    """What a paper's module fills. `quick` asks for the shortest runs that show anything."""

    def __init__(self, name, title, reference, weft, quick):
        self.name, self.weft, self.quick = name, weft, quick
        self.pictures = {}  # name: a function that draws to a path
        self.missing = []
        self.parts = [f"# {title}", "", reference, "",
                      f"`tools/paper {name}` makes this page: it runs every command below and writes what came out."]
        print(f"{title}\n{reference}")

    def section(self, heading, text=""):
        print(f"\n== {heading}", flush=True)
        self.parts += ["", f"## {heading}"]
        if text:
            self.text(text)

    def text(self, text):
        print(text)
        self.parts += ["", textwrap.fill(text, 118, break_long_words=False, break_on_hyphens=False)]

    def table(self, head, rows):
        """Cells are text; the first column is to the left, the others to the right."""
        cells = [[str(cell) for cell in row] for row in (head, *rows)]
        widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
        for row in cells:
            print("  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]))
        sys.stdout.flush()
        line = "| {} |".format
        self.parts += ["", line(" | ".join(cells[0])), line(" | ".join(["---", *["---:"] * (len(head) - 1)])),
                       *(line(" | ".join(row)) for row in cells[1:])]

    def picture(self, name, alternative, draw):
        self.pictures[name] = draw
        self.parts += ["", f"![{alternative}]({self.name}-{name}.svg)"]

    def needs(self, row, what):
        """A row of the paper that cannot be shown here."""
        self.missing.append((row, what))

    def commands(self, *lines):
        """What a reader types; those that follow each other are one block."""
        if self.parts[-1] == "```":
            self.parts[-1:] = [*lines, "```"]
        else:
            self.parts += ["", "```sh", *lines, "```"]

    # Runs.

    def run(self, *words, show=True):
        """The rows of a `weft` command, which the page names."""
        words = [str(word) for word in words]
        print(f"# weft {shlex.join(words)}", file=sys.stderr, flush=True)
        if show:
            self.commands(f"weft {shlex.join(words)}")
        return rows_of([str(self.weft), *words, "--json"], limit_s=LIMIT_S, cwd=ROOT)

    def tool(self, name, *words):
        """The rows of another program of the build folder."""
        print(f"# {name} {' '.join(words)}", file=sys.stderr, flush=True)
        self.commands(" ".join([name, *words]))
        return rows_of([str(self.weft.parent / name), *words], limit_s=LIMIT_S)

    def strategies(self, names, *words, seconds=2.0):
        """`weft perf strategies` with these names: {(name, straggler): row}."""
        rows = self.run("perf", "strategies", "--strategies", ",".join(names), *words,
                        *(() if "--steps" in words else ("--seconds", 0.3 if self.quick else seconds)))
        return {(row["strategy"], row["straggler"]): row for row in rows}

    def predict(self, cluster, operation, size, ranks, *words, show=True):
        """Microseconds of an operation by number of ranks."""
        rows = self.run("predict", "--cluster", f"examples/clusters/{cluster}.toml", "--operation", operation,
                        "--sizes", size, "--ranks", ",".join(str(each) for each in ranks), *words, show=show)
        return {row["ranks"]: row["us"] for row in rows}

    # The end.

    def finish(self, folder):
        if self.missing:
            self.section("What cannot be shown here")
            self.table(("of the paper", "what it needs"), dict.fromkeys(self.missing))
        if not folder:
            return
        folder.mkdir(parents=True, exist_ok=True)
        for name, draw in self.pictures.items():
            draw(folder / f"{self.name}-{name}.svg")
        (folder / f"{self.name}.md").write_text("\n".join([*self.parts, ""]), encoding="utf-8")

