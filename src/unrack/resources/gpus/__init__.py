"""GPUs as they are connected: machines, what jobs claim of them, and what that does to their speed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrack.extras import lazily

if TYPE_CHECKING:
    from unrack.resources.gpus.columns import GPUS as GPUS
    from unrack.resources.gpus.columns import UTILITY_PARTS as UTILITY_PARTS
    from unrack.resources.gpus.columns import WHOLE as WHOLE
    from unrack.resources.gpus.machines.drawing import draw as draw
    from unrack.resources.gpus.machines.reading.read import read_machine as read_machine
    from unrack.resources.gpus.machines.written import written_toml as written_toml
    from unrack.resources.gpus.profiles import Profiles as Profiles
    from unrack.resources.gpus.profiles import app_name as app_name
    from unrack.resources.gpus.profiles import read_profiles as read_profiles
    from unrack.resources.gpus.resource import placements as placements
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
