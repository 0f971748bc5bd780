"""The oracle of tiny worlds lives beside the tests of the bound; small clusters and jobs beside those of the engine."""

from __future__ import annotations

import sys
from pathlib import Path

for folder in ("bound", "engine"):
    path = str(Path(__file__).parents[1] / folder)
    if path not in sys.path:
        sys.path.append(path)
