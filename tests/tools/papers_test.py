"""tools/paper from outside: a report says what it ran and what is missing, and its page has its pictures.

usage: papers_test.py BUILD"""

import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from papers import bluefog, canary, horovod, models, prague  # noqa: E402
from papers.page import Page  # noqa: E402

BUILD = sys.argv.pop(1)
LIMIT_S = 250


def paper(*words, build=BUILD):
    return subprocess.run([ROOT / "tools" / "paper", *words, "--build", build], capture_output=True, text=True,
                          timeout=LIMIT_S, check=False)


class Report(unittest.TestCase):
    def test_a_page_has_its_tables_and_pictures(self):
        with tempfile.TemporaryDirectory() as folder:
            done = paper("sgp", "--quick", "--docs", folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            page = (Path(folder) / "sgp.md").read_text(encoding="utf-8")
            section = "Fig. 11: one peer and two"
            self.assertIn(f"## {section}\n", page)
            self.assertIn(f"== {section}\n", done.stdout)
            self.assertIn("## What cannot be shown here\n", page)
            self.assertNotRegex(page, r"\| (nan|inf|None) \|")
            pictures = re.findall(r"\]\(([^)]+\.svg)\)", page)
            self.assertTrue(pictures)
            for picture in pictures:
                xml.parse(Path(folder) / picture)

    def test_sections_of_the_other_papers(self):
        for paper, sections in ((bluefog, (bluefog.table_1, bluefog.figure_8)), (horovod, (horovod.histogram,)),
                                (canary, (canary.interfaces, canary.use_of_links)),
                                (prague, (prague.speedups, prague.groups))):
            with self.subTest(paper.TITLE), tempfile.TemporaryDirectory() as folder:
                name = paper.__name__.rpartition(".")[2]
                page = Page(name, paper.TITLE, paper.REFERENCE, Path(BUILD) / "bin" / "weft", quick=True)
                for section in sections:
                    section(page)
                page.finish(Path(folder))
                text = (Path(folder) / f"{name}.md").read_text(encoding="utf-8")
                self.assertEqual(text.count("\n## "), len(sections))
                self.assertGreaterEqual(text.count("| --- |"), len(sections))
                self.assertNotRegex(text, r"\| (nan|inf|None) \|")

    def test_models_have_the_sizes_that_the_paper_names(self):
        mebibytes = {name: 4 * sum(layers) / 2**20 for name, layers in models.MODELS.items()}
        self.assertAlmostEqual(mebibytes["VGG19"], 532.61, delta=0.05)
        self.assertAlmostEqual(mebibytes["Inception-V3"], 83.18, delta=0.1)
        for name, shapes in models.DENSE.items():
            for rows, columns in shapes:
                self.assertIn(rows * columns, models.MODELS[name])

    def test_mistakes_are_named(self):
        done = paper("ssgp")
        self.assertEqual(done.returncode, 2)
        self.assertIn("invalid choice: 'ssgp' (choose from", done.stderr)
        done = paper("sgp", build="/nowhere")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere/bin/weft is not there: run tools/build first", done.stderr)


if __name__ == "__main__":
    unittest.main()
