"""The resource ``site``: its key and section, in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unrack.resources.contract import Installed, Nodes, UsualResource
from unrack.resources.site.installed import Site
from unrack.resources.site.told.limits import limit_tables
from unrack.resources.site.told.partitions import account_tables, partition_tables, queue_tables
from unrack.resources.use import Kept, Table


class SiteResource(UsualResource):
    """See :class:`unrack.resources.contract.Resource`."""

    name = "site"
    title = "Partitions and limits"

    def installed(self, table: Any, nodes: Nodes, where: str) -> Installed:
        """The site of a cluster file."""
        return Site(table, nodes, where)

    def section(self, runs: Sequence[Kept]) -> tuple[Table, ...]:
        """Its partitions, accounts, queues and limits under every policy."""
        told = [run for run in runs if run.table is not None]
        parts = (partition_tables, account_tables, queue_tables, limit_tables) if told else ()
        return tuple(table for part in parts for table in part(told))
