"""The page of a study, its charts, and figures as files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrack.extras import lazily

if TYPE_CHECKING:
    from unrack.report.charts.spec import colour_of as colour_of
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
