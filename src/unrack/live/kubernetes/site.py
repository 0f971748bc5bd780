"""The site file of a Kubernetes: what its scheduler may do, and how: ``docs/kubernetes.md``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PrivateAttr

from unrack.live.driver.service.folders import WAKE
from unrack.live.driver.service.tables import ServiceTable, SitePath, time_between
from unrack.live.driver.state.epoch import Spec
from unrack.study.input.document import Document
from unrack.study.input.inputs import PolicySpec, make_policy_spec
from unrack.study.world import RunTimes
from unrack.units import SECOND_US

_UNKEPT = "molding", "resizing", "extension"


class KubernetesSite(ServiceTable):
    """A whole site file; made by :meth:`load`."""

    # the schedulerName of the pods that it schedules; of others it sees what they hold, and touches nothing
    scheduler: str = Field(default="unrack", pattern=r"^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$")
    # kubeconfig, context: how the server is reached; by default as ``kubectl`` does, or as the pod that this is
    kubeconfig: SitePath | None = None
    context: str | None = Field(default=None, max_length=253)
    # how long a pod is expected to run that says nothing of it
    longest_us: Annotated[int, time_between(1, 10 * 365 * 86_400)] = Field(
        default=7 * 86_400 * SECOND_US, alias="longest"
    )
    # how long an answer of the server may take
    timeout_us: Annotated[int, time_between(0.1, 600)] = Field(default=30 * SECOND_US, alias="timeout")
    # what the server tells is known at once: to look costs nothing
    poll_us: Annotated[int, time_between(0.05, 60)] = Field(default=SECOND_US // 20, alias="poll")
    poll_slowest_us: Annotated[int, time_between(0.05, 3600)] = Field(default=SECOND_US // 10, alias="poll_slowest")

    _policy: PolicySpec | None = PrivateAttr(default=None)

    @classmethod
    def load(cls, path: str | Path) -> KubernetesSite:
        """Read and check a site file.

        Raises
        ------
        InputError
            It cannot be read, or a key or value is wrong; the message has file, line, key, what was got and wanted.
        """
        document = Document.read(path, "a site file")
        return cls.of(document.table, document)

    @classmethod
    def of(cls, table: Mapping[str, Any], document: Document | None = None) -> KubernetesSite:
        """A site from the keys of a site file.

        Raises
        ------
        InputError
            As for :meth:`load`.
        """
        document = document or Document("site", None, table)
        site = document.validated(cls, table)
        beside = document.folder or Path()
        places: dict[str, Any] = {"state": beside / site.state, "wake": beside / (site.wake or site.state / WAKE)}
        if site.kubeconfig is not None:
            places["kubeconfig"] = beside / site.kubeconfig.expanduser()
        site = site.model_copy(update=places)
        for key, given, want in (
            ("cluster", bool(site.cluster), "no cluster: nodes are those of Kubernetes"),
            ("models", bool(site.models), "no models: no devices of pools are given to pods"),
            ("fabric", site.fabric != {"kind": "none"}, "no fabric: no devices of pools are given to pods"),
        ):
            if given:
                raise document.fault((key,), "this key", want)
        site._policy = make_policy_spec(site.policy, document, 0, ("policy",))
        if site._policy.world != RunTimes.STUDY:
            raise document.fault(("policy",), f"the world {str(site._policy.world)!r}", "no world: this one is real")
        if unkept := sorted(set(_UNKEPT) & dict(site._policy.parameters).keys()):
            got = f"the parameter {unkept[0]} in {site.policy!r}"
            raise document.fault(("policy",), got, "none of it: pods have one size, and no limit that could be raised")
        if site.metrics.stalled_after_us < 2 * site.timeout_us:
            got = f"a timeout of {site.timeout_us / SECOND_US:g} s"
            raise document.fault(("timeout",), got, "half of metrics.stalled_after at most")
        return site

    @property
    def policy_spec(self) -> PolicySpec:
        """How to make the policy; ``policy_spec.make()`` makes it."""
        assert self._policy is not None, "a KubernetesSite is made by load or of"
        return self._policy

    @property
    def spec(self) -> Spec:
        """The policy as a journal has it, which is read from other folders, too."""
        policy = self.policy_spec
        if not policy.file:
            return {"label": policy.label, "name": policy.name, **dict(policy.parameters)}
        path, colon, name = policy.file.rpartition(":")
        return {"label": policy.label, "file": f"{Path(path).absolute()}{colon}{name}"}
