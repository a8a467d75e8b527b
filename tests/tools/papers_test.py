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

    def test_mistakes_are_named(self):
        done = paper("ssgp")
        self.assertEqual(done.returncode, 2)
        self.assertIn("invalid choice: 'ssgp' (choose from", done.stderr)
        done = paper("sgp", build="/nowhere")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere/bin/weft is not there: run tools/build first", done.stderr)


if __name__ == "__main__":
    unittest.main()
