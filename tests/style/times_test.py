"""tools/times: labels are told beside their budgets, and one that took too long is a failure."""

import importlib.machinery
import importlib.util
import json
import unittest
from pathlib import Path

PATH = Path(__file__).resolve().parent.parent.parent / "tools" / "times"


def load():
    loader = importlib.machinery.SourceFileLoader("times", str(PATH))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


times = load()


class TimesTest(unittest.TestCase):
    def test_budgets_are_those_of_the_documentation(self):
        text = times.BUDGETS.read_text(encoding="utf-8")
        plain, sanitized = times.budgets(text, False), times.budgets(text, True)
        self.assertEqual(sorted(plain), ["gpu", "install", "netns", "perf", "python", "ranks", "sim", "softroce", "unit"])
        self.assertEqual(sorted(sanitized), ["ranks", "sim", "unit"])
        for label, seconds in sanitized.items():
            self.assertGreater(seconds, plain[label])

    def test_slow_machines_get_more(self):
        self.assertEqual(times.slowness(times.REFERENCE_S / 2), 1)
        self.assertEqual(times.slowness(times.REFERENCE_S * 2), 2)
        self.assertGreaterEqual(times.measured_slowness(), 1)

    def test_labels_and_places(self):
        listed = {"tests": [{"name": "a", "properties": [{"name": "LABELS", "value": ["unit"]}]}, {"name": "b"},
                            {"name": "c", "properties": [{"name": "LABELS", "value": ["ranks"]},
                                                         {"name": "PROCESSORS", "value": 2}]},
                            {"name": "d", "properties": [{"name": "RUN_SERIAL", "value": True}]}]}
        self.assertEqual(times.declared(json.dumps(listed)),
                         {"a": ("unit", 1), "b": ("", 1), "c": ("ranks", 2), "d": ("", None)})

    def test_tests_that_run_at_once_share_the_time(self):
        tests = {"a": ("unit", 1), "b": ("unit", 1), "c": ("ranks", 2), "d": ("perf", None)}
        self.assertEqual(times.used(tests, [("a", 10.0), ("b", 6.0), ("c", 7.0), ("d", 3.0)], 4),
                         {"unit": {"a": 2.5, "b": 1.5}, "ranks": {"c": 3.5}, "perf": {"d": 3.0}})

    def test_one_and_a_half_times_the_budget_is_too_long(self):
        lines, is_kept = times.report({"unit": {"a": 50, "b": 9}, "sim": {"c": 9, "d": 80}, "ranks": {"e": 5}},
                                      {"unit": 60, "sim": 60})
        self.assertTrue(is_kept)
        for line, end in zip(lines, ("59 s of   60 s  kept", "89 s of   60 s  over", "the slowest: d 80 s, c 9 s",
                                     "5 s no budget"), strict=True):
            self.assertTrue(line.endswith(end), line)
        lines, is_kept = times.report({"unit": {"a": 91}}, {"unit": 60})
        self.assertFalse(is_kept)
        self.assertIn("failed: more than 1.5 times as long", lines[0])


if __name__ == "__main__":
    unittest.main()
