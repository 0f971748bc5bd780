"""Network links of nodes and racks: what jobs send over them themselves, and for devices of other nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrack.extras import lazily

if TYPE_CHECKING:
    from unrack.resources.links.resource import RODINIA as RODINIA
    from unrack.resources.links.resource import Profiles as Profiles
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
