"""The fabrics that a site file may name: ``[fabric]`` with ``kind = "files"`` and what that needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from unrack.errors import InputError, first_fault, got_and_want
from unrack.live.fabric.breaking import BreakingFabric, Breaks
from unrack.live.fabric.contract import Fabric
from unrack.live.fabric.files.fabric import FileFabric
from unrack.live.fabric.ledger_only import LedgerOnly
from unrack.live.fabric.loop.fabric import LoopFabric
from unrack.units import memory_mb

Share = Annotated[float, Field(ge=0, le=1)]


class _Options(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NoOptions(_Options):
    """Nothing to say."""


class FileOptions(_Options):
    """Of ``files``."""

    folder: Path  # an absolute path, the same on all nodes


class LoopOptions(_Options):
    """Of ``loop``."""

    folder: Path  # an absolute path, for the files behind the devices
    size: str = "64 MB"  # of a device: ``"64 MB"``, the default


class DrillOptions(_Options):
    """Of ``drill``."""

    inner: dict[str, Any]  # the fabric in which things break: a table like ``[fabric]``
    seed: int  # decides what breaks
    # refuse, half, lose, slow: the share of operations that are refused, stop half way, are done unsaid, take
    # ``slow_s`` longer
    refuse: Share = 0.0
    half: Share = 0.0
    lose: Share = 0.0
    slow: Share = 0.0
    slow_s: Annotated[float, Field(ge=0, le=600)] = 0.0
    often: Annotated[int, Field(ge=0)] = 3  # how often one operation breaks at most


class FabricKind(NamedTuple):
    """A kind of fabric."""

    summary: str  # what it is, for the documentation
    options: type[BaseModel]  # the keys of its table beside ``kind``
    make: Callable[[Any, str], Fabric]  # makes one of them, given where they are from, for errors
    lasts: bool = True  # true: what is attached outlives the scheduler's process, and its machine's restart


def _files(options: FileOptions, where: str) -> Fabric:
    return FileFabric(_absolute(options.folder, where))


def _loop(options: LoopOptions, where: str) -> Fabric:
    try:
        size_mb = memory_mb(options.size, "down")
    except ValueError as error:
        raise InputError(f"{where}, size", repr(options.size), str(error)) from None
    return LoopFabric(_absolute(options.folder, where), size_mb)


def _drill(options: DrillOptions, where: str) -> Fabric:
    return BreakingFabric(
        make_fabric(options.inner, f"{where}, inner"), Breaks(**options.model_dump(exclude={"inner"}))
    )


def _absolute(folder: Path, where: str) -> Path:
    if not folder.is_absolute():
        raise InputError(f"{where}, folder", repr(str(folder)), "an absolute path")
    return folder


FABRICS: dict[str, FabricKind] = {
    "none": FabricKind(
        "nothing is attached: the ledger alone says which job has what", NoOptions, lambda *_: LedgerOnly(), False
    ),
    "files": FabricKind("files in a shared folder, for a prolog and an epilog on the nodes", FileOptions, _files),
    "loop": FabricKind("loop devices of this machine as stand-ins for drives", LoopOptions, _loop),
    "drill": FabricKind("another fabric, in which some operations break", DrillOptions, _drill),
}
"""Kind → what it needs and how it is made. Another kind is a folder and a line here."""


def make_fabric(table: Mapping[str, Any], where: str = "[fabric]") -> Fabric:
    """The fabric that a table of a site file names.

    Parameters
    ----------
    table
        ``kind``, and the keys that it needs; empty: ``none``.
    where
        Where it is from, for errors.

    Raises
    ------
    InputError
        There is no such kind, a key is wrong, or it cannot be used on this machine.

    Examples
    --------
    >>> make_fabric({"kind": "none"}).state()
    []
    """
    name = table.get("kind", "none" if not table else None)
    if not isinstance(name, str) or name not in FABRICS:
        raise InputError(f"{where}, kind", "nothing" if name is None else repr(name), f"one of {', '.join(FABRICS)}")
    kind = FABRICS[name]
    try:
        options = kind.options.model_validate({key: value for key, value in table.items() if key != "kind"})
    except ValidationError as error:
        fault = first_fault(error.errors())
        key = ".".join(map(str, fault["loc"]))
        got, want = got_and_want(fault, ["kind", *kind.options.model_fields])
        raise InputError(f"{where}, {key}" if key else where, got, want) from None
    return kind.make(options, where)
