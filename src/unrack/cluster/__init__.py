"""What there is: nodes, pools, tiers, partitions, prices; presets and files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrack.extras import lazily

if TYPE_CHECKING:
    from unrack.cluster.domains import NAMED as NAMED
    from unrack.cluster.domains import NODE as NODE
    from unrack.cluster.domains import RACK as RACK
    from unrack.cluster.domains import Level as Level
    from unrack.cluster.file import CapacityMb as CapacityMb
    from unrack.cluster.file import content_of as content_of
    from unrack.cluster.file import number as number
    from unrack.cluster.presets import PRESETS as PRESETS
    from unrack.cluster.systems import MemorySystem as MemorySystem
    from unrack.cluster.tiers import Number as Number
    from unrack.cluster.tiers import make_tiers as make_tiers
    from unrack.cluster.tiers import names_of_clusters as names_of_clusters
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
