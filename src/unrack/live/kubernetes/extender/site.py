"""The site file of an extender of kube-scheduler: ``docs/kubernetes-extender.md``."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, PrivateAttr

from unrack.errors import InputError
from unrack.live.additions import checked
from unrack.live.driver.service.tables import (
    Listens,
    LogTable,
    MetricsTable,
    SitePath,
    spec_of,
    time_between,
    with_paths,
)
from unrack.live.driver.state.epoch import Spec
from unrack.live.kubernetes.adapter.terms import Added
from unrack.live.kubernetes.added import refuse_lending
from unrack.live.kubernetes.extender.judging import ADDED, LONGEST_US, placing_of
from unrack.live.watch.address import Address
from unrack.resources.checked import Strict
from unrack.study.input.inputs import Document, PolicySpec, make_policy_spec
from unrack.units import SECOND_US

TLS = "certificate", "key", "client_ca"
_NO_POOLS = "none: no object of Kubernetes says which devices of a pool a pod has, and an extender keeps no journal"


class ExtenderMetrics(MetricsTable):
    """The ``[metrics]`` table, on a port beside those of a scheduler and a composer."""

    address: Listens = Address("127.0.0.1", 9643)


class ExtenderSite(Strict):
    """A whole site file; made by :meth:`load`."""

    policy: str | dict[str, Any]  # as an entry of ``policies`` of a study; only where it places a pod counts
    address: Listens = Address("127.0.0.1", 9644)  # where kube-scheduler asks: ``urlPrefix``
    # certificate, key: PEM files, with which it speaks HTTPS; client_ca: clients without a certificate of this
    # authority are not answered. All three, or an address that only this machine reaches: clients can bind pods
    certificate: SitePath | None = None
    key: SitePath | None = None
    client_ca: SitePath | None = None
    # kubeconfig, context: how the server is reached; by default as ``kubectl`` does, or as the pod that this is
    kubeconfig: SitePath | None = None
    context: str | None = Field(default=None, max_length=253)
    timeout_us: Annotated[int, time_between(0.1, 600)] = Field(default=5 * SECOND_US, alias="timeout")
    cluster: dict[str, Any] = Field(default_factory=dict)  # what Kubernetes does not know of the nodes
    metrics: ExtenderMetrics = ExtenderMetrics()
    log: LogTable = LogTable()

    _policy: PolicySpec | None = PrivateAttr(default=None)
    _added: Added = PrivateAttr(default=ADDED)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read and check a site file.

        Raises
        ------
        InputError
            It cannot be read, or a key or value is wrong: where, what was got and wanted.
        """
        document = Document.read(path, "a site file of an extender")
        site = with_paths(document.validated(cls, document.table), document)
        site._check(document)
        return site

    def _check(self, document: Document) -> None:
        said = [key for key in TLS if getattr(self, key) is not None]
        if self.address is None:
            raise document.fault(("address",), "none", "where kube-scheduler asks, such as '127.0.0.1:9644'")
        if said and not {"certificate", "key"} <= set(said):
            raise document.fault((said[0],), f"{' and '.join(said)} alone", "certificate and key, or none of the three")
        if not self.address.is_loopback and "client_ca" not in said:
            want = "certificate, key and client_ca with it: clients that are answered can bind pods"
            raise document.fault(("address",), f"{self.address}, which others reach", want)
        refuse_lending(self.cluster, document)
        if "pools" in self.cluster:
            raise document.fault(("cluster", "pools"), "this key", _NO_POOLS)
        self._added = Added(LONGEST_US, checked(self.cluster, document))
        self._policy = make_policy_spec(self.policy, document, 0, ("policy",))
        if why := placing_of(self._policy.make())[1]:
            raise document.fault(("policy",), repr(self.policy), why)
        if said:
            with document.part(said[0]):
                self.tls()

    @property
    def policy_spec(self) -> PolicySpec:
        """How to make the policy."""
        assert self._policy is not None, "a site is made by load"
        return self._policy

    @property
    def added(self) -> Added:
        """What it says of nodes beyond what Kubernetes does."""
        return self._added

    @property
    def spec(self) -> Spec:
        """The policy."""
        return spec_of(self.policy_spec)

    def tls(self) -> ssl.SSLContext | None:
        """How it speaks HTTPS; ``None``: it does not.

        Raises
        ------
        InputError
            A file cannot be read, or has something else.
        """
        if self.certificate is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(self.certificate, self.key, lambda: "")  # a key with a password is refused
            if self.client_ca is not None:
                context.load_verify_locations(self.client_ca)
                context.verify_mode = ssl.CERT_REQUIRED
        except OSError as error:  # that of ssl among them
            raise InputError("TLS", str(error), "PEM files of a certificate, its key and an authority") from None
        return context
