"""The resources: one line each."""

from __future__ import annotations

from unrack.resources.contract import Resource
from unrack.resources.counted.resource import Counted
from unrack.resources.gpus.resource import GpuResource
from unrack.resources.links.resource import LinkResource
from unrack.resources.spread.resource import Spread

RESOURCES: dict[str, Resource] = {
    resource.name: resource for resource in (Counted(), GpuResource(), LinkResource(), Spread())
}
"""Name → resource, in the order of the report."""
