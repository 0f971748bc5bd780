"""How fast jobs run: models of devices, and contention for memory after measured profiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrack.extras import lazily

if TYPE_CHECKING:
    from unrack.resources.contract import Slowdown as Slowdown
    from unrack.slowdown.contention.predict import Contention as Contention
    from unrack.slowdown.contention.predict import Fallback as Fallback
    from unrack.slowdown.contention.profile import METHODS as METHODS
    from unrack.slowdown.contention.profile import Curve as Curve
    from unrack.slowdown.contention.profile import Method as Method
    from unrack.slowdown.contention.profile import ProfileSet as ProfileSet
    from unrack.slowdown.contention.profile import fitted as fitted
    from unrack.slowdown.contention.profile_file import read_profiles as read_profiles
    from unrack.slowdown.contention.profile_file import synthetic_profiles as synthetic_profiles
    from unrack.slowdown.memory.settings import MemoryContention as MemoryContention
    from unrack.slowdown.memory.speeds import MemorySpeeds as MemorySpeeds
    from unrack.slowdown.model import PUBLISHED as PUBLISHED
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
