"""Servers placed on tiers of memory in one shot: a request in, an answer out (Farshin et al. 2021)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrack.extras import lazily

if TYPE_CHECKING:
    from unrack_papers.servers.answer import PlacedServers as PlacedServers
    from unrack_papers.servers.batch.solve import place_batch as place_batch
    from unrack_papers.servers.one_shot import place as place
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
