"""What jobs use of the memory that they ask for, over their progress: read, drawn, thinned, matched to jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrack.public import lazily

if TYPE_CHECKING:
    from unrack.workload.usage.curves import WHOLE as WHOLE
    from unrack.workload.usage.curves import UsageCurves as UsageCurves
    from unrack.workload.usage.curves import series_of as series_of
    from unrack.workload.usage.read import read_usage as read_usage
    from unrack.workload.usage.shapes.draw import drawn as drawn
    from unrack.workload.usage.shapes.parameters import KINDS as KINDS
    from unrack.workload.usage.shapes.parameters import properties as properties
    from unrack.workload.usage.shapes.parameters import shapes_of as shapes_of
    from unrack.workload.usage.thin import thinned as thinned
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
