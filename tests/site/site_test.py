"""tools/site from outside: every link of every page leads somewhere, the reference has what the headers and docstrings have,
and nothing is loaded from elsewhere.

usage: site_test.py FOLDER: where the site is made; skipped (77) where the package index cannot be reached."""

import html.parser
import json
import re
import subprocess
import sys
import unittest
import urllib.parse
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(sys.argv.pop(1))
SITE = FOLDER / "html"
LIMIT_S = 240
SKIPPED = 77


class Links(html.parser.HTMLParser):
    """The links of a page, its anchors, and what a browser loads with it."""

    def __init__(self, page):
        super().__init__()
        self.targets, self.anchors, self.loaded = [], set(), []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors.update(filter(None, (attributes.get("id"), attributes.get("name"))))
        if tag == "a" and attributes.get("href"):
            self.targets.append(attributes["href"])
        if tag in ("script", "img") and attributes.get("src"):
            self.loaded.append(attributes["src"])
        if tag == "link" and attributes.get("rel") in ("stylesheet", "icon"):
            self.loaded.append(attributes["href"])


def pages():
    return [page for page in SITE.rglob("*.html") if page.name != "404.html"]


def text_of(page):
    return re.sub(r"<[^>]+>", "", (SITE / page / "index.html").read_text(encoding="utf-8"))


class Site(unittest.TestCase):
    def test_every_link_leads_somewhere(self):
        parsed = {page.resolve(): Links(page) for page in pages()}
        self.assertGreater(len(parsed), 80)
        lost = []
        for page, links in parsed.items():
            for target in links.targets + links.loaded:
                url = urllib.parse.urlsplit(target)
                if url.scheme or url.netloc:
                    continue
                path = (page.parent / urllib.parse.unquote(url.path)).resolve() if url.path else page
                path = path / "index.html" if path.is_dir() else path
                there = path.exists() and (not url.fragment or path not in parsed or url.fragment == "__top"
                                           or urllib.parse.unquote(url.fragment) in parsed[path].anchors)
                if not there:
                    lost.append(f"{page.relative_to(SITE.resolve())}: {target}")
        self.assertEqual(lost, [])

    def test_nothing_is_loaded_from_elsewhere(self):
        for page in pages():
            self.assertEqual([each for each in Links(page).loaded if urllib.parse.urlsplit(each).netloc], [], page)

    def test_the_reference_has_each_header_and_what_it_declares(self):
        for header in (ROOT / "include" / "weft").rglob("*.h"):
            if header.name == "export.h":
                continue
            page = text_of(header.relative_to(ROOT))
            for name in re.findall(r"^class (\w+) [^;]*\{|\bweft_code (weft_\w+)\(", header.read_text(encoding="utf-8"), re.MULTILINE):
                self.assertIn("".join(name), page, header)

    def test_the_reference_has_the_docstrings(self):
        self.assertIn("neighbor_allreduce", text_of("reference/weft"))
        self.assertIn("DistributedAdaptWithCombineOptimizer", text_of("reference/weft.torch"))

    def test_the_search_knows_names_and_words(self):
        index = json.loads((SITE / "search" / "search_index.json").read_text(encoding="utf-8"))
        for words in ("weft_window_put", "class PushSum", "WEFT_DEADLINE_MS", "def win_create", "Stragglers"):
            found = [each["location"] for each in index["docs"] if words.split()[-1].lower() in each["text"].lower() + each["title"].lower()]
            self.assertTrue(found, words)


def main():
    done = subprocess.run([ROOT / "tools" / "site", "-o", FOLDER], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if "pip install" in done.stderr and done.returncode != 0:
        print("the package index cannot be reached: the site was not made")
        return SKIPPED
    if done.returncode != 0:
        print(done.stdout, done.stderr)
        return 1
    unittest.main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
