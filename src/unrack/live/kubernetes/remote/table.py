"""``[fabric]`` with ``kind = "server-pods"``: which GPUs pods reach over the network, and by which middleware."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from pydantic import Field, PrivateAttr

from unrack.errors import InputError
from unrack.live.driver.service.tables import SitePath, path_of, time_between
from unrack.resources.checked import Strict
from unrack.study.input.inputs import Document
from unrack.units import SECOND_US

SERVER_PODS = "server-pods"
_AT = ("fabric",)
_FIELDS = {"address": "", "port": "", "gpu": ""}


class ServerPods(Strict):
    """The table; made by :meth:`of`."""

    kind: Literal["server-pods"]
    # the manifest of a pod that serves the GPUs of its node; the first container is given them
    pod: SitePath
    port: Annotated[int, Field(ge=1, le=65535, strict=True)]  # on which it listens
    resource: str = Field(default="nvidia.com/gpu", pattern=r"^[a-z0-9.-]{1,253}/[A-Za-z0-9._-]{1,63}$")
    # labels of the nodes that have the GPUs; default: of all that have some
    nodes: dict[str, str] = Field(default_factory=dict)
    # client, each: how a client is told where its GPUs are, in words joined by commas, one for each server or GPU
    client: str = Field(default="{address}:{port}", min_length=1, max_length=200)
    each: Literal["server", "gpu"] = "server"
    # how long a server may take until it is ready
    ready_us: Annotated[int, time_between(1, 3600)] = Field(default=60 * SECOND_US, alias="ready")
    # how long that is expected to take, by which plans go
    attach_us: Annotated[int, time_between(0, 3600)] = Field(default=2 * SECOND_US, alias="attach_latency")
    # what becomes of a client that loses its server: it is told so in an event, or stopped besides
    on_lost: Literal["tell", "stop"] = "tell"

    _manifest: dict[str, Any] = PrivateAttr(default_factory=dict)

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest of a server pod, as it was written."""
        return self._manifest

    @classmethod
    def of(cls, document: Document) -> ServerPods:
        """The table of a site file.

        Raises
        ------
        InputError
            A key or a value is wrong, or the manifest is none of a pod.
        """
        found = document.validated(cls, document.table["fabric"], _AT)
        with document.part(*_AT, kind=InputError):
            said = found.words([("192.0.2.1", 1)])
        if not said.isprintable() or "," in found.client:
            raise document.fault((*_AT, "client"), repr(found.client), "printable characters but commas")
        path = path_of(document, found.pod, *_AT, "pod")
        found._manifest = _manifest(path)
        return found

    def words(self, servers: list[tuple[str, int]]) -> str:
        """What a client is told of its servers: the address of each, and how many GPUs it has there.

        Raises
        ------
        InputError
            ``client`` has a field that there is not.
        """
        try:
            return ",".join(
                self.client.format(address=address, port=self.port, gpu=gpu)
                for address, gpus in servers
                for gpu in (range(gpus) if self.each == "gpu" else (0,))
            )
        except (KeyError, IndexError, ValueError, AttributeError, TypeError):
            want = f"text with no other fields than {', '.join(f'{{{name}}}' for name in _FIELDS)}"
            raise InputError("client", repr(self.client), want) from None


class _Given(msgspec.Struct, frozen=True):
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _Manifest(msgspec.Struct, frozen=True):
    kind: str
    spec: dict[str, Any]
    metadata: _Given = _Given()


def _manifest(path: Path) -> dict[str, Any]:
    """A pod of a file.

    Raises
    ------
    InputError
        It cannot be read, or is no pod.
    """
    try:
        found = msgspec.yaml.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(str(path), str(error)[:300], "the manifest of a pod") from None
    try:
        pod = msgspec.convert(found, _Manifest)
    except msgspec.ValidationError as error:
        raise InputError(str(path), str(error)[:300], "the manifest of a pod") from None
    if pod.kind != "Pod" or not pod.spec.get("containers"):
        raise InputError(str(path), f"the kind {pod.kind!r}", "a Pod with containers")
    for key in ("nodeName", "nodeSelector", "affinity", "schedulingGates"):
        if key in pod.spec:
            raise InputError(f"{path}, spec.{key}", "this key", "none: a server runs where the GPUs are")
    return {"kind": "Pod", "metadata": msgspec.to_builtins(pod.metadata), "spec": pod.spec}
