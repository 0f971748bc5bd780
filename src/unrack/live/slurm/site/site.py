"""A site file, checked wholly before anything is driven."""

from __future__ import annotations

from typing import Any

from pydantic import PrivateAttr

from unrack.live.slurm.site.tables import SiteTable
from unrack.policy.contract import Policy
from unrack.policy.limits import Extending
from unrack.study.input.inputs import Document
from unrack.units import SECOND_US

MINUTE_US, MOST_POLL_US = 60 * SECOND_US, 10 * SECOND_US
"""Limits of Slurm are in minutes; and where jobs are given more time the driver must not see too late that they run."""


class Site(SiteTable):
    """What a live scheduler of a Slurm site may do, and how; made by :meth:`load`.

    Attributes beside those of the tables: :attr:`path`, :attr:`policy_spec`, :attr:`performance_models`,
    :attr:`additions`.
    """

    _path: str = PrivateAttr(default="")

    def _check(self, document: Document) -> None:
        self._path = document.path
        self._take_cluster(document)
        self._take_policy(document, ("molding", "resizing"), "none of it: what Slurm tells of jobs has no sizes")
        if "extension" in dict(self.policy_spec.parameters):
            self._check_more_time(document, self.policy_spec.make())

    def _check_more_time(self, document: Document, policy: Policy[Any]) -> None:
        """Refuse to give running jobs more time where Slurm cannot be told, or not in time."""
        assert isinstance(policy, Extending)
        what = f"the parameter extension in {self.policy!r}"
        if policy.step_us % MINUTE_US or policy.most_us % MINUTE_US:
            raise document.fault(("policy",), what, "whole minutes, as limits of Slurm are")
        if self.cluster.get("pools"):
            raise document.fault(("policy",), f"{what}, and pools", "either: jobs with devices are given no more time")
        if self.poll_slowest_us > MOST_POLL_US:
            got = f"{self.poll_slowest_us / SECOND_US:g} s, and {what}"
            raise document.fault(
                ("poll_slowest",), got, f"{MOST_POLL_US // SECOND_US} s or less, to tell Slurm in time"
            )

    @property
    def path(self) -> str:
        """The file."""
        return self._path
