"""Each rule finds a breach of it and accepts what keeps it."""

import tempfile
import unittest
from pathlib import Path

import rules


class RulesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def expect(self, rule, *parts):
        """One finding for each part, which it contains."""
        findings = rules.RULES[rule](self.root)
        self.assertEqual(len(findings), len(parts), findings)
        for finding, part in zip(findings, parts):
            self.assertIn(part, finding)

    def test_includes_may_go_down_and_to_siblings(self):
        self.write("engine/context/context.cc", '#include "engine/context/core.h"\n#include "verbs/base/base.h"\n'
                   '#include "hwy/highway.h"\n#include <vector>\n')
        self.write("tests/base/status_test.cc", '#include "verbs/base/status.h"\n')
        self.expect("layers")

    def test_include_that_goes_up(self):
        self.write("verbs/shm/shm.cc", '#include "topology/rails/rails.h"\n')
        self.expect("layers", "verbs/shm/shm.cc:1: verbs/ must not include")

    def test_include_across_the_top_level(self):
        self.write("tools/weft/main.cc", '#include "bench/kernels/timing.h"\n')
        self.expect("layers", "includes only go down")

    def test_include_of_another_modules_private_header(self):
        self.write("engine/execute/execute.cc", '\n#include "verbs/shm/ring.h"\n')
        self.expect("layers", 'execute.cc:2: "verbs/shm/ring.h" is private to verbs/shm')

    def test_include_that_is_not_from_the_top(self):
        self.write("verbs/shm/shm.cc", '#include "ring.h"\n#include "../base/base.h"\n')
        self.expect("layers", '"ring.h" is not written', '"../base/base.h" is not written')

    def test_modules_that_include_each_other(self):
        self.write("verbs/shm/shm.h", '#include "verbs/memory/memory.h"\n')
        self.write("verbs/memory/memory.h", '#include "verbs/shm/shm.h"\n')
        self.expect("layers", "verbs/memory -> verbs/shm -> verbs/memory")

    def test_long_file(self):
        self.write("verbs/base/base.cc", "\n" * 601)
        self.write("verbs/base/base.h", "\n" * 600)
        self.expect("size", "verbs/base/base.cc: 601 lines")

    def test_sleeping_test(self):
        self.write("tests/shm/ring_test.cc", "std::this_thread::sleep" "_for(1s);\n")
        self.write("tests/shm/run.sh", "sleep 1\n")
        self.write("tests/shm/late_test.cc", "f();\n::usleep" "(10);\n")
        self.write("tests/progress/lane_test.cc", "interface.sleep(kMinuteNs, done);  // sleeps\nsleep_until(done);\n")
        self.expect("sleep", "tests/shm/late_test.cc:2", "tests/shm/ring_test.cc:1", "tests/shm/run.sh:1")

    def test_reading_the_environment(self):
        self.write("engine/config/config.cc", 'getenv("A");\n')
        self.write("engine/context/context.cc", 'Config::from_environment();\nstd::getenv("A");\n')
        self.expect("environment", "engine/context/context.cc:2")

    def test_thread_that_is_not_ours(self):
        self.write("verbs/base/thread.cc", "pthread_create(&thread, nullptr, run, nullptr);\n")
        self.write("engine/bootstrap/server.cc", "Thread thread;\nstd::thread other;\n")
        self.write("verbs/progress/progress.cc", "std::thread::hardware_concurrency();\nstd::async(f);\n")
        self.write("tests/base/thread_test.cc", "std::thread other;\n")
        self.expect("threads", "server.cc:2", "progress.cc:2")

    def test_source_that_is_not_built(self):
        self.write("verbs/shm/CMakeLists.txt", "weft_module(verbs shm SOURCES shm.cc parts/ring.cc)\n")
        for path in ("shm.cc", "parts/ring.cc", "forgotten.cc"):
            self.write(f"verbs/shm/{path}", "")
        self.expect("sources", "verbs/shm/forgotten.cc")

    def test_layout(self):
        self.write(".clang-format", "BasedOnStyle: Google\n")
        self.write("verbs/base/good.cc", "int f() { return 1; }\n")
        self.write("verbs/base/bad.cc", "int  f( ) {return 1;}\n")
        self.expect("layout", "verbs/base/bad.cc:1")

    def test_broken_link(self):
        self.write("README.md", "[a](docs/a.md) [b](docs/a.md#a-part-of-a) [c](https://weft.example/) [d](docs/d.md)\n")
        self.write("docs/a.md", "[up](../README.md)\n[down](b.md)\n[here](#other)\n# A part of `a`\n```sh\n# other\n```\n")
        self.expect("links", "README.md:1: no such file: docs/d.md", "docs/a.md:2: no such file: b.md",
                    "docs/a.md:3: no such heading: #other")

    def test_a_test_that_the_documentation_names_and_is_not_there(self):
        self.write("tests/shm/ring_test.cc", "TEST(Ring, IsRound) {}\nTEST_P(Other, IsNot) {}\n")
        self.write("docs/limits.md", "`Ring.IsRound`, `Other.*`, `Ring.IsSquare`\n`Nobody.*`\n")
        self.expect("tests", "docs/limits.md:1: no such test: Ring.IsSquare", "docs/limits.md:2: no such test: Nobody.*")

    def test_modules_that_a_layer_does_not_name(self):
        self.write("verbs/README.md", "| module |\n|---|\n| `base` | words |\n| `gone` | nothing |\n")
        self.write("verbs/base/base.h", "")
        self.write("verbs/shm/parts/ring.h", "")
        self.expect("modules", "no row for the module shm", "no such module: gone")


if __name__ == "__main__":
    unittest.main()
