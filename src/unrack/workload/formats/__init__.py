"""What readers of one's own are made of, and readers of formats that have more to say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrack.extras import lazily

if TYPE_CHECKING:
    from unrack.workload.formats.intake import DEVICE as DEVICE
    from unrack.workload.formats.intake import EXTRA as EXTRA
    from unrack.workload.formats.intake import OVERRUN as OVERRUN
    from unrack.workload.formats.intake import Tally as Tally
    from unrack.workload.formats.intake import unheeded as unheeded
    from unrack.workload.formats.intake import workload as workload
    from unrack.workload.formats.quantities import MOST as MOST
    from unrack.workload.formats.quantities import MOST_MB as MOST_MB
    from unrack.workload.formats.quantities import amounts as amounts
    from unrack.workload.formats.quantities import boolean as boolean
    from unrack.workload.formats.quantities import choice as choice
    from unrack.workload.formats.quantities import count as count
    from unrack.workload.formats.quantities import memory_unit_mb as memory_unit_mb
    from unrack.workload.formats.quantities import numbers as numbers
    from unrack.workload.formats.quantities import refuse as refuse
    from unrack.workload.formats.quantities import shown as shown
    from unrack.workload.formats.quantities import time_option_us as time_option_us
    from unrack.workload.formats.quantities import time_unit_us as time_unit_us
    from unrack.workload.formats.quantities import times_us as times_us
    from unrack.workload.formats.quantities import typed as typed
    from unrack.workload.formats.quantities import whole as whole
    from unrack.workload.formats.readers import make_format as make_format
    from unrack.workload.formats.source import Locator as Locator
    from unrack.workload.formats.source import Source as Source
    from unrack.workload.formats.source import load as load
    from unrack.workload.formats.source import parameters_of as parameters_of
    from unrack.workload.formats.source import parameters_text as parameters_text
    from unrack.workload.formats.source import text_bytes as text_bytes
    from unrack.workload.formats.table.aliases import find_aliases as find_aliases
    from unrack.workload.formats.table.columns import TableColumns as TableColumns
    from unrack.workload.formats.table.columns import carried as carried
    from unrack.workload.formats.table.read import as_workload as as_workload
    from unrack.workload.formats.table.read import mapped as mapped
    from unrack.workload.formats.table.text import csv_frame as csv_frame
    from unrack.workload.formats.writers import write_frame as write_frame
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
