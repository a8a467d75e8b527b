"""The pages of the site: the tree's Markdown as it is, and as pages what it links to: programs, headers, data, folders."""

import os
import posixpath
import re
import shutil
import subprocess
from pathlib import Path

from pages import headers

ROOT = Path(__file__).resolve().parents[2]
# Lines of code and tables have up to 128 characters.
WIDE = ".md-grid { max-width: 84rem; }\n.md-typeset code { font-size: .75em; }\n.md-typeset td code { white-space: nowrap; }\n"
LINK = re.compile(r"(?<!!)\[((?:[^\]\[]|\[[^\]]*\])*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
PICTURES = (".svg", ".png")
LAYERS = ("engine", "verbs", "topology", "scheduler", "bindings")
LANGUAGES = {".cc": "cpp", ".h": "cpp", ".py": "python", ".toml": "toml", ".xml": "xml", ".json": "json", ".c": "c", ".csv": "text"}


def stage(folder):
    """Writes the pages to the folder; returns the settings of MkDocs that are to be used."""
    shutil.rmtree(folder, ignore_errors=True)
    tracked = subprocess.run(["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard"],
                             check=True, capture_output=True, text=True).stdout.split("\n")
    texts = [name for name in tracked if name.endswith(".md") and not name.startswith(("tests/", "."))]
    wanted = set()
    for name in texts:
        text = (ROOT / name).read_text()
        write(folder / page_of(name), LINK.sub(lambda match, name=name: redirected(match, name, tracked, wanted), text))
    for name in tracked:
        if name.startswith("docs/") and name.endswith(PICTURES):
            write(folder / name, (ROOT / name).read_text())
        elif name.startswith("include/") and name.endswith(".h") and name != "include/weft/export.h":
            path = name.removeprefix("include/")
            language = "c" if path == "weft/c.h" or path.startswith("weft/c/") else "cpp"
            write(folder / page_of(name), headers.page(path, (ROOT / name).read_text(), language))
    for name in wanted:
        write(folder / page_of(name), shown(name, tracked))
    for name, module in (("weft", "weft"), ("weft.torch", "weft.torch"), ("weft.horovod", "weft.horovod"),
                         ("weft.topology", "weft.topology")):
        write(folder / "reference" / f"{name}.md", f"# {name}\n\n::: {module}\n    options:\n      show_root_toc_entry: false\n")
    write(folder / "wide.css", WIDE)
    config = folder.parent / "mkdocs.yml"
    write(config, settings((ROOT / "docs" / "site.yml").read_text(), folder, tracked))
    return config


def settings(text, folder, tracked):
    """docs/site.yml with the folders, and with lists of the pages that it names by their kind."""
    public = [name for name in tracked if name.startswith("include/weft/") and name.endswith(".h")]
    c = [name for name in public if name == "include/weft/c.h" or name.startswith("include/weft/c/")]
    kinds = {
        "HEADERS_CPP": [name for name in public if name not in c and name != "include/weft/export.h"],
        "HEADERS_C": c,
        "PAPERS": [name for name in tracked if name.startswith("docs/papers/") and name.endswith(".md")],
        "NOTES": [name for name in tracked if name.endswith("/README.md") and name.split("/")[0] in LAYERS],
    }
    for kind, names in kinds.items():
        text = text.replace(kind, f"[{', '.join(entry(name) for name in names)}]")
    return text.replace("docs_dir: .", f"docs_dir: {folder}").replace("[bindings/python]", f"[{ROOT}/bindings/python]")


def entry(name):
    """A page in the table of contents; a header and a note are called by their path."""
    title = name.removeprefix("include/").removesuffix("/README.md")
    return page_of(name) if title.endswith(".md") else f"{{{title}: {page_of(name)}}}"


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def page_of(name):
    """Where the page of a file or folder of the tree is."""
    if name == "README.md":
        return "index.md"
    return name if name.endswith(".md") else f"{name}.md"


def redirected(match, name, tracked, wanted):
    """A link of the file `name` to a part of the tree, as one to its page. Links to nothing are left for MkDocs to find."""
    text, target, anchor = match.group(1), match.group(2), match.group(3) or ""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
    is_folder = any(each.startswith(f"{path}/") for each in tracked)
    if path not in tracked and not is_folder or path.endswith(PICTURES):
        return match.group(0)
    if is_folder and f"{path}/README.md" in tracked:
        path = f"{path}/README.md"
    elif is_folder or not path.endswith((".md", ".h")) or path.startswith(("tests/", ".")):
        wanted.add(path)
    return f"[{text}]({os.path.relpath(page_of(path), posixpath.dirname(page_of(name)) or '.')}{anchor})"


def shown(name, tracked):
    """The page of a file that is no text, or of a folder."""
    path = ROOT / name
    if path.is_dir():
        names = sorted(each.removeprefix(f"{name}/") for each in tracked if each.startswith(f"{name}/"))
        return f"# {name}\n\n" + "\n".join(f"- `{each}`" for each in names) + "\n"
    if path.suffix == ".md":
        return path.read_text()
    return f"# {name}\n\n`````{LANGUAGES.get(path.suffix, 'text')}\n{path.read_text()}\n`````\n"
