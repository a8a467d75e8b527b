"""What tools/numbers measures, for tests that hold it against gates of their own."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from figures import clusters, planning, runs  # noqa: E402, F401  # pylint: disable=wrong-import-position, unused-import
