"""The resources: one line each."""

from __future__ import annotations

from unrack.resources.contract import Resource
from unrack.resources.counted.resource import Counted

RESOURCES: dict[str, Resource] = {resource.name: resource for resource in (Counted(),)}
"""Name → resource, in the order of the report."""
