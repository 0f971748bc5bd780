"""Servers on tiers of memory, one after the other: an allocator, and the policies made of it (Farshin et al. 2021)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrack.public import lazily

if TYPE_CHECKING:
    from unrack_papers.tiers.one_by_one import OneByOne as OneByOne
    from unrack_papers.tiers.one_by_one import place_one_by_one as place_one_by_one
    from unrack_papers.tiers.problem import Allocation as Allocation
    from unrack_papers.tiers.problem import least_price as least_price
    from unrack_papers.tiers.problem import regular_supply as regular_supply
    from unrack_papers.tiers.problem import some_of as some_of
    from unrack_papers.tiers.refusals import Refusals as Refusals
    from unrack_papers.tiers.scheduler import TierPolicy as TierPolicy
    from unrack_papers.tiers.scheduler import servers_in_order as servers_in_order
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
