"""The real worlds: what unrack does to machines, beyond simulating them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrack.extras import lazily

if TYPE_CHECKING:
    from unrack.live.fabric.files.scripts import scripts_folder as scripts_folder
    from unrack.live.slurm.asks.script import script_text as script_text
    from unrack.live.watch.unit import unit_text as unit_text
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
