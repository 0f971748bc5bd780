"""Metrics: functions of result tables, and what is known of their means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrack.extras import lazily

if TYPE_CHECKING:
    from unrack.metric.estimate import LEVEL as LEVEL
    from unrack.metric.estimate import student_t as student_t
    from unrack.metric.kinds.pool import pool_steps as pool_steps
    from unrack.metric.table import per_group as per_group
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
