"""Cores of a die joined as a torus: which of them a server or a job has (Farshin et al. 2021, section 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrack.extras import lazily

if TYPE_CHECKING:
    from unrack_papers.torus.core_tiles import CORE_RULES as CORE_RULES
    from unrack_papers.torus.core_tiles import CoreSet as CoreSet
    from unrack_papers.torus.core_tiles import CoreTiles as CoreTiles
    from unrack_papers.torus.solve import TorusPlacement as TorusPlacement
    from unrack_papers.torus.solve import best_tiles as best_tiles
    from unrack_papers.torus.solve import first_fit_tiles as first_fit_tiles
    from unrack_papers.torus.solve import quick_tiles as quick_tiles
    from unrack_papers.torus.solve import tile_distance as tile_distance
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
