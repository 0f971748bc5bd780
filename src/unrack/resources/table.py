"""The resources: one line each, and those of plug-ins."""

from __future__ import annotations

from typing import Any

from unrack.errors import InputError
from unrack.plugins.table import Table
from unrack.resources.contract import Resource
from unrack.resources.counted.resource import Counted
from unrack.resources.gpus.resource import GpuResource
from unrack.resources.links.resource import LinkResource
from unrack.resources.power.resource import PowerResource
from unrack.resources.site.resource import SiteResource
from unrack.resources.spread.resource import Spread


def _of_others(name: str, found: Any) -> Resource:
    made: Resource = found() if isinstance(found, type) else found
    members = ("name", "title", "metrics", "installed", "measure", "section", "slowdown")
    if lacking := [member for member in members if not hasattr(made, member)]:
        raise InputError(f"the resource {name}", f"{found!r:.100} without {', '.join(lacking)}", "a Resource")
    if made.name != name:
        raise InputError(f"the resource {name}", f"one with the name {made.name!r}", "the same name")
    return made


RESOURCES: Table[Resource] = Table(
    "resources",
    {
        resource.name: resource
        for resource in (Counted(), GpuResource(), LinkResource(), PowerResource(), SiteResource(), Spread())
    },
    _of_others,
)
"""Name → resource, in the order of the report."""


def resource_of(name: str) -> Resource:
    """A resource that a cluster has.

    An InputError if it is a plug-in's that is not in use here, or cannot be loaded.
    """
    if name not in RESOURCES:
        raise InputError(f"resource {name}", "none of this name", "the plug-in that brings it: plugins = ['FILE.py']")
    return RESOURCES[name]
