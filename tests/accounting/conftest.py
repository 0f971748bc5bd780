"""Small clusters and jobs are beside the tests of the engine."""

from __future__ import annotations

import sys
from pathlib import Path

path = str(Path(__file__).parents[1] / "engine")
if path not in sys.path:
    sys.path.append(path)
