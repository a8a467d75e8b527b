"""tools/numbers as a module: what it measures, with the gates of tests."""

import importlib.machinery
import importlib.util
from pathlib import Path

PATH = Path(__file__).resolve().parent.parent.parent / "tools" / "numbers"


def load():
    loader = importlib.machinery.SourceFileLoader("numbers_of_weft", str(PATH))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module
