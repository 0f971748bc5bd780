"""The resource ``site``: its key and section, in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unrack.resources.contract import Installed, Nodes, UsualResource
from unrack.resources.site.installed import Site
from unrack.resources.telling import Kept, Table


class SiteResource(UsualResource):
    """See :class:`unrack.resources.contract.Resource`."""

    name = "site"
    title = "Partitions and limits"

    def installed(self, table: Any, nodes: Nodes, where: str) -> Installed:
        """The site of a cluster file."""
        return Site(table, nodes, where)

    def section(self, runs: Sequence[Kept]) -> tuple[Table, ...]:
        """Nothing yet."""
        return ()
