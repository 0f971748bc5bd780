"""The site file of a composer: ``docs/kubernetes-composer.md``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from unrack.cluster.spec import Cluster
from unrack.live.driver.service.tables import Listens, LogTable, MetricsTable, SitePath, time_between, with_paths
from unrack.live.kubernetes.composer.catalogue import Catalogue, PoolKeys, catalogue_of
from unrack.live.watch.address import Address
from unrack.resources.checked import Strict
from unrack.study.input.inputs import Document
from unrack.units import SECOND_US

NAME = r"^[A-Za-z_][A-Za-z0-9_]{0,31}$"
OWN = {"kind", "pool", "switch"}
"""Attributes that all devices have."""


class PoolTable(Strict):
    """A table ``[pools.NAME]``: what the cluster file does not say of a pool."""

    switch: str = Field(default="", pattern=r"^[A-Za-z0-9._/-]{0,64}$")  # what its devices hang on
    # what selectors may ask for: text, whole numbers, true or false
    attributes: dict[
        Annotated[str, Field(pattern=NAME)], Annotated[str, Field(max_length=64)] | Annotated[int, Field()] | bool
    ] = Field(default_factory=dict, max_length=16)

    @model_validator(mode="after")
    def _not_own(self) -> PoolTable:
        if own := sorted(OWN & self.attributes.keys()):
            raise ValueError(f"other attributes than {own[0]}, which all devices have")
        return self


class ComposerMetrics(MetricsTable):
    """The ``[metrics]`` table, on a port beside that of a scheduler."""

    address: Listens = Address("127.0.0.1", 9642)


class ComposerSite(Strict):
    """A whole site file; made by :meth:`load`."""

    cluster: SitePath  # a cluster file: its pools that several nodes reach are published; read again when it changes
    fabric: dict[str, Any]  # what attaches devices: ``kind``, and the keys of that kind
    # the name of the driver, as device classes have it
    driver: str = Field(default="fabric.unrack.io", pattern=r"^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$")
    node_label: str = Field(default="kubernetes.io/hostname", max_length=253)  # the label of nodes that has their names
    pools: dict[str, PoolTable] = Field(default_factory=dict)  # see :class:`PoolTable`
    state: SitePath = Path("/var/lib/unrack-composer")  # the folder of the lock; nothing else is kept
    # kubeconfig, context: how the server is reached; by default as ``kubectl`` does, or as the pod that this is
    kubeconfig: SitePath | None = None
    context: str | None = Field(default=None, max_length=253)
    timeout_us: Annotated[int, time_between(0.1, 600)] = Field(default=30 * SECOND_US, alias="timeout")
    at_once: Annotated[int, Field(ge=1, le=64, strict=True)] = 4  # operations under way at a switch
    # a device that is not attached after so long has failed; it is given to no claim for as long as avoid says
    give_up_us: Annotated[int, time_between(0.1, 86_400)] = Field(default=120 * SECOND_US, alias="give_up")
    avoid_us: Annotated[int, time_between(0, 86_400)] = Field(default=300 * SECOND_US, alias="avoid")
    look_us: Annotated[int, time_between(0.1, 3600)] = Field(default=10 * SECOND_US, alias="look")
    # metrics, log: as of a Slurm
    metrics: ComposerMetrics = ComposerMetrics()
    log: LogTable = LogTable()

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read and check a site file, and the cluster file that it names.

        Raises
        ------
        InputError
            One cannot be read, or a key or value is wrong: where, what was got and wanted.
        """
        document = Document.read(path, "a site file of a composer")
        site = with_paths(document.validated(cls, document.table), document)
        site.read_catalogue()
        return site

    def read_catalogue(self) -> Catalogue:
        """What the cluster file has by now.

        Raises
        ------
        InputError
            It cannot be read, or has a pool that cannot be published.
        """
        said = {name: PoolKeys(table.switch, table.attributes) for name, table in self.pools.items()}
        return catalogue_of(Cluster.load(self.cluster), said, str(self.cluster))
