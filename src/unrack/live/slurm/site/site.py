"""A site file, checked wholly before anything is driven."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import PrivateAttr

from unrack.live.driver.service.folders import WAKE
from unrack.live.slurm.site.additions import Additions, checked
from unrack.live.slurm.site.tables import SiteTable
from unrack.policy.contract import Policy
from unrack.policy.limits.extending import Extending
from unrack.slowdown.model import Model, make_models
from unrack.study.input.document import Document
from unrack.study.input.inputs import PolicySpec, make_policy_spec
from unrack.study.world import RunTimes
from unrack.units import SECOND_US

MINUTE_US, MOST_POLL_US = 60 * SECOND_US, 10 * SECOND_US
"""Limits of Slurm are in minutes; and where jobs are given more time the driver must not see too late that they run."""


class Site(SiteTable):
    """What a live scheduler of a Slurm site may do, and how; made by :meth:`load`.

    Attributes beside those of the tables: :attr:`path`, :attr:`policy_spec`, :attr:`performance_models`,
    :attr:`additions`.
    """

    _path: str = PrivateAttr(default="")
    _policy: PolicySpec | None = PrivateAttr(default=None)
    _models: tuple[Model, ...] = PrivateAttr(default=())
    _additions: Additions = PrivateAttr(default_factory=lambda: Additions({}))

    @classmethod
    def load(cls, path: str | Path) -> Site:
        """Read and check a site file.

        Raises
        ------
        InputError
            It cannot be read, or a key or value is wrong; the message has file, line, key, what was got and wanted.
        """
        document = Document.read(path, "a site file")
        return cls.of(document.table, document)

    @classmethod
    def of(cls, table: Mapping[str, Any], document: Document | None = None) -> Site:
        """A site from the keys of a site file.

        Raises
        ------
        InputError
            As for :meth:`load`.
        """
        document = document or Document("site", None, table)
        site = document.validated(cls, table)
        beside = document.folder or Path()
        places = {"state": beside / site.state, "wake": beside / (site.wake or site.state / WAKE)}
        site = site.model_copy(update=places)
        site._path = document.path
        site._additions = checked(site.cluster, document)
        site._policy = make_policy_spec(site.policy, document, 0, ("policy",))
        if site._policy.world != RunTimes.STUDY:
            raise document.fault(("policy",), f"the world {str(site._policy.world)!r}", "no world: this one is real")
        if sizing := sorted({"molding", "resizing"} & dict(site._policy.parameters).keys()):
            got = f"the parameter {sizing[0]} in {site.policy!r}"
            raise document.fault(("policy",), got, "none of it: what Slurm tells of jobs has no sizes")
        if "extension" in dict(site._policy.parameters):
            site._check_more_time(document, site._policy.make())
        with document.part("models"):
            site._models = make_models(site.models, document.folder)
        return site

    def _check_more_time(self, document: Document, policy: Policy[Any]) -> None:
        """Refuse to give running jobs more time where Slurm cannot be told, or not in time."""
        assert isinstance(policy, Extending)
        what = f"the parameter extension in {self.policy!r}"
        if policy.step_us % MINUTE_US or policy.most_us % MINUTE_US:
            raise document.fault(("policy",), what, "whole minutes, as limits of Slurm are")
        if self.cluster.get("pools"):
            raise document.fault(("policy",), f"{what}, and pools", "either: who holds devices is given no more time")
        if self.poll_slowest_us > MOST_POLL_US:
            got = f"{self.poll_slowest_us / SECOND_US:g} s, and {what}"
            raise document.fault(
                ("poll_slowest",), got, f"{MOST_POLL_US // SECOND_US} s or less, to tell Slurm in time"
            )

    @property
    def path(self) -> str:
        """The file."""
        return self._path

    @property
    def policy_spec(self) -> PolicySpec:
        """How to make the policy; ``policy_spec.make()`` makes it."""
        assert self._policy is not None, "a Site is made by load or of"
        return self._policy

    @property
    def performance_models(self) -> tuple[Model, ...]:
        """How fast jobs run on devices, as :func:`unrack.simulate` takes them."""
        return self._models

    @property
    def additions(self) -> Additions:
        """What Slurm does not know of the nodes."""
        return self._additions
