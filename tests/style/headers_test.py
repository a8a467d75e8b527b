"""The sources that headers.py writes show that headers compile alone."""

import tempfile
import unittest
from pathlib import Path

import headers


class HeadersTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def sources(self, **texts):
        """For headers a.h, b.h, … with such texts; together.cc is not of interest."""
        for name, text in texts.items():
            (self.root / f"{name}.h").write_text(text)
        written = headers.sources([f"{name}.h" for name in texts], headers.closures(self.root))
        self.assertEqual(written.pop("together.cc"), "".join(f'#include "{name}.h"\n' for name in sorted(texts)))
        return written

    def test_a_header_follows_one_that_it_includes(self):
        self.assertEqual(self.sources(a="#include <string>\n", b='#include "a.h"\n', c='#include <map>\n#include "b.h"\n'),
                         {"alone/c.h.cc": "".join(f'#include "{name}.h"\n' * 2 for name in "abc")})

    def test_a_header_that_lacks_an_include_of_another_does_not_follow_it(self):
        self.assertEqual([*self.sources(a="#include <string>\n", b="std::string b();\n")], ["alone/a.h.cc", "alone/b.h.cc"])

    def test_of_two_headers_that_include_the_same_one_follows_it(self):
        self.assertEqual([*self.sources(a="", b='#include "a.h"\n', c='#include "a.h"\n')], ["alone/b.h.cc", "alone/c.h.cc"])

    def test_only_what_includes_the_base_is_compiled_after_it(self):
        base = self.root / headers.BASE
        base.parent.mkdir(parents=True)
        base.write_text("#include <string>\n")
        self.assertEqual([*self.sources(a="#include <string>\n", b=f'#include "{headers.BASE}"\n')],
                         ["based/b.h.cc", "alone/a.h.cc"])

    def test_writing_again_keeps_what_is_right_and_removes_the_rest(self):
        headers.write(self.root, {"alone/a.h.cc": "a", "alone/b.h.cc": "b"})
        before = (self.root / "alone/a.h.cc").stat().st_mtime_ns
        headers.write(self.root, {"alone/a.h.cc": "a", "alone/c.h.cc": "c"})
        self.assertEqual((self.root / "alone/a.h.cc").stat().st_mtime_ns, before)
        self.assertEqual(sorted(path.name for path in self.root.rglob("*.cc")), ["a.h.cc", "c.h.cc"])


if __name__ == "__main__":
    unittest.main()
