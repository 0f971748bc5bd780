"""What jobs use of the memory that they ask for, over their progress: read, thinned, matched to jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrack.extras import lazily

if TYPE_CHECKING:
    from unrack.workload.usage.curves import SHARE_UNIT as SHARE_UNIT
    from unrack.workload.usage.curves import WHOLE as WHOLE
    from unrack.workload.usage.curves import UsageCurves as UsageCurves
    from unrack.workload.usage.curves import UsageSeries as UsageSeries
    from unrack.workload.usage.curves import ranges as ranges
    from unrack.workload.usage.curves import series_of as series_of
    from unrack.workload.usage.curves import starts as starts
    from unrack.workload.usage.curves import tidy_table as tidy_table
    from unrack.workload.usage.described import KINDS as KINDS
    from unrack.workload.usage.described import NEAR as NEAR
    from unrack.workload.usage.described import Properties as Properties
    from unrack.workload.usage.described import highest as highest
    from unrack.workload.usage.described import in_use as in_use
    from unrack.workload.usage.described import properties as properties
    from unrack.workload.usage.read import read_usage as read_usage
    from unrack.workload.usage.thin import thinned as thinned
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
