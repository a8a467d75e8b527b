"""cmake/unity.py: sources are grouped unless a private name of one means something in another."""

import importlib.machinery
import importlib.util
import tempfile
import unittest
from pathlib import Path

PATH = Path(__file__).resolve().parent.parent.parent / "cmake" / "unity.py"


def load():
    loader = importlib.machinery.SourceFileLoader("unity", str(PATH))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


unity = load()


def private(*lines):
    return "\n".join(("namespace weft {", "namespace {", "", *lines, "", "}  // namespace", "}  // namespace weft", ""))


class UnityTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def groups(self, most=8, **texts):
        """Of a target with sources a.cc, b.cc, …, by the letters of each group."""
        for name, text in texts.items():
            (self.root / f"{name}.cc").write_text(text)
        paths = [str(self.root / f"{name}.cc") for name in texts]
        found = {}
        for _, number, path in unity.grouped(str(self.root), most, [("folder", "target", paths)]):
            found[number] = found.get(number, "") + Path(path).stem
        return list(found.values())

    def test_names_by_their_declarations(self):
        for line, name in (("constexpr int kMost = 3;", "kMost"), ("struct alignas(64) Slot {", "Slot"),
                           ("class Open final : public Base {", "Open"), ("Result<int> read(const Fd& fd) {", "read"),
                           ("std::array<int, 3> table{1, 2, 3};", "table"), ("const char kText[] = \"a\";", "kText"),
                           ("using Rails = std::vector<int>;", "Rails"), ("enum class Way : std::uint8_t { up };", "Way"),
                           ("[[nodiscard]] int rank_of(int place);", "rank_of"), ("void Core::start(int a) {", None),
                           ("TEST(Graph, IsARing) {", None), ("  int inner = 0;", None), ("}  // namespace", None),
                           ("bool operator==(const A& a, const B& b) {", None), ("#include <map>", None)):
            self.assertEqual(unity.name_in(line), name, line)

    def test_sources_without_common_names_are_one_group(self):
        self.assertEqual(self.groups(a=private("int f() { return 1; }"), b=private("int g() { return 1; }"), c=""), ["abc"])

    def test_a_private_name_that_is_private_in_another_source_too(self):
        self.assertEqual(self.groups(a=private("int f() { return 1; }"), b=private("int f() { return 2; }"), c=""), ["ac"])

    def test_a_private_name_that_a_header_of_another_source_declares(self):
        (self.root / "f.h").write_text("namespace weft {\nint f();\n}  // namespace weft\n")
        (self.root / "outer.h").write_text('#include "f.h"\n')
        self.assertEqual(self.groups(a=private("int f() { return 1; }"), b='#include "outer.h"\n', c=""), ["ac"])

    def test_a_group_has_so_many_sources_at_most(self):
        self.assertEqual(self.groups(most=2, a="", b="", c="", d="", e=""), ["ab", "cd"])

    def test_a_source_that_defines_a_macro_stays_alone(self):
        self.assertEqual(self.groups(a="", b="#define F 1\n", c=""), ["ac"])

    def test_a_source_of_two_targets_stays_alone(self):
        for name in "ab":
            (self.root / f"{name}.cc").write_text("")
        paths = [str(self.root / f"{name}.cc") for name in "ab"]
        targets = [("folder", "one", paths), ("folder", "two", paths[:1])]
        self.assertEqual([*unity.grouped(str(self.root), 8, targets)], [])


if __name__ == "__main__":
    unittest.main()
