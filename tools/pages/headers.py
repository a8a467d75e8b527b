"""A public header as a page: its first comment is the text, and each declaration with its comment follows as it is written."""

import re

# What a declaration at the beginning of a line declares.
NAMED = re.compile(r"^(?:template <[^>]*>\s*)?(?:typedef )?(?:enum class|enum|class|struct|union)\s+(?:\[\[\w+\]\] )?(?:WEFT_\w+ )?(\w+)[^;]*\{"
                   r"|^(?:typedef|using)\s[^;]*?(\w+)\s*(?:=[^;]*)?;$"
                   r"|^(?:inline )?constexpr [^=]*?(\w+) ="
                   r"|^#define (\w+)"
                   r"|^[\w\[\]:<>,*& ]*?[*& ](\w+)\(", re.MULTILINE)


def page(path, text, language):
    """The page of a header whose place in include/ is `path`."""
    prose, _, body = text.partition("#pragma once")
    prose = "\n".join(line[2:].removeprefix(" ") for line in prose.strip().splitlines())
    _, _, prose = prose.partition(": ")
    prose = "\n\n".join(fenced(each, language) for each in (prose[:1].upper() + prose[1:]).split("\n\n"))
    parts = [f"# {path}\n", f"```{language}\n#include <{path}>\n```\n", prose + "\n"]
    last = None
    for block in blocks(body):
        names = names_of(block)
        if names and names != last:
            parts.append(f"## {names}\n")
        last = names or last
        parts.append(f"```{language}\n{block}\n```\n")
    return "\n".join(parts)


def fenced(paragraph, language):
    """A paragraph of a comment; samples are indented, and columns are set apart by spaces."""
    is_sample = paragraph.startswith("  ")
    if not is_sample and not re.search(r"\S {3,}\S", paragraph):
        return paragraph
    return f"```{language if is_sample else 'text'}\n{paragraph}\n```"


def blocks(body):
    """Declarations with their comments: what empty lines, or the beginnings of comments, separate outside of braces."""
    found, block, depth = [], [], 0
    for line in body.splitlines():
        if re.match(r"(#include|#if|#endif|extern \"C\"|namespace|\}  // namespace|WEFT_(BEGIN|END)|\}$)", line) and depth == 0:
            line = ""
        if line.startswith("//") and depth == 0 and block and not block[-1].startswith("//"):
            found.append("\n".join(block))
            block = []
        depth += line.partition("//")[0].count("{") - line.partition("//")[0].count("}")
        if line or depth > 0:
            block.append(line)
        elif block:
            found.append("\n".join(block))
            block = []
    return found + (["\n".join(block)] if block else [])


def names_of(block):
    """What the block declares, as a heading; '' if that is a note or a declaration of another header's class."""
    code = "\n".join(line for line in block.splitlines() if not line.startswith("//"))
    first = NAMED.search(code)
    if code.startswith(("class", "struct", "enum", "template", "typedef struct", "union")) and first:
        return next(filter(None, first.groups()))
    names = [next(filter(None, match.groups())) for match in NAMED.finditer(code)]
    return ", ".join(dict.fromkeys(names))
