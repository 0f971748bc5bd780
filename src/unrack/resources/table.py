"""The resources: one line each."""

from __future__ import annotations

from unrack.resources.contract import Resource

RESOURCES: dict[str, Resource] = {resource.name: resource for resource in list[Resource]()}
"""Name → resource, in the order of the report."""
