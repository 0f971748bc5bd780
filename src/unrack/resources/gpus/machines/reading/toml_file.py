"""A machine in a TOML file of one's own: sockets, switches, GPUs and links, with weights or measured bandwidths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError, model_validator

from unrack.errors import ClusterError, first_fault, got_and_want
from unrack.resources.gpus.machines.cpu_list import numbers_of

MOST_GPUS = 64
MOST_WEIGHT = 1_000_000


def _cpus(value: object) -> tuple[int, ...]:
    if isinstance(value, str):
        return numbers_of(value)
    if isinstance(value, list) and all(type(one) is int and one >= 0 for one in value):
        return tuple(sorted(set(value)))
    raise ValueError('numbers of CPUs such as "0-7,16-23"')


def _end(value: object) -> int | str:
    if isinstance(value, str) or (type(value) is int and value >= 0):
        return value
    raise ValueError("the number of a GPU, or the name of a part")


Cpus = Annotated[tuple[int, ...], PlainValidator(_cpus)]
End = Annotated[int | str, PlainValidator(_end)]
Weight = Annotated[int, Field(strict=True, ge=1, le=MOST_WEIGHT)]
Bandwidth = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
Number = Annotated[int, Field(strict=True, ge=0, lt=MOST_GPUS)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Weighed(_Table):
    """A table with a weight or a bandwidth in GB/s, not both."""

    weight: Weight | None = None
    gb_s: Bandwidth | None = None

    @model_validator(mode="after")
    def _not_both(self) -> _Weighed:
        if self.weight is not None and self.gb_s is not None:
            raise ValueError("weight or gb_s, not both")
        return self


class _Carrier(_Weighed):
    """A part that GPUs hang on, with the weight or the bandwidth of the links to them."""

    name: str | None = Field(default=None, min_length=1)
    gpus: list[Number] = Field(default_factory=list)
    gpu_weight: Weight | None = None
    gpu_gb_s: Bandwidth | None = None

    @model_validator(mode="after")
    def _not_both_of_gpus(self) -> _Carrier:
        if self.gpu_weight is not None and self.gpu_gb_s is not None:
            raise ValueError("gpu_weight or gpu_gb_s, not both")
        return self


class SocketTable(_Carrier):
    """A ``[[sockets]]`` table.

    Attributes
    ----------
    name
        Default: ``socket 0``, ``socket 1`` … in order.
    gpus
        The numbers of the GPUs that hang on it without a switch.
    cores
        Its CPUs as the system counts them, such as ``"0-7,16-23"``.
    weight, gb_s
        Of its link to the machine.
    gpu_weight, gpu_gb_s
        Of its links to its GPUs.
    """

    cores: Cpus = ()


class SwitchTable(_Carrier):
    """A ``[[switches]]`` table: a PCIe switch. ``on``: the socket, or a switch before it, by name; a number: a socket.

    The other keys are those of a socket, without ``cores``.
    """

    on: End


class NvswitchTable(_Carrier):
    """A ``[[nvswitches]]`` table: joins the GPUs in ``gpus`` (default: all) with links of ``gpu_weight``."""

    gpus: list[Number] | None = None  # type: ignore[assignment]


class LinkTable(_Weighed):
    """A ``[[links]]`` table: a link between two GPUs by number, or between other parts by name.

    ``kind`` is by default what the parts suggest, and ``width`` how many NVLinks it is: of two links of equal weight
    the wider one is nearer. It replaces a link that the same parts have already.
    """

    between: tuple[End, End]
    width: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] | None = None
    kind: str | None = Field(default=None, pattern="^(nvlink|pcie|bus)$")


class BandwidthTable(_Table):
    """A ``[gb_s]`` table: what links of each kind carry, GB/s, where they do not say it themselves.

    Of an NVLink of known width: each of so many.
    """

    pcie: Bandwidth | None = None
    nvlink: Bandwidth | None = None
    bus: Bandwidth | None = None


class MachineFile(_Table):
    """The keys of a file with a machine.

    Attributes
    ----------
    name
        Default: the name of the file.
    base
        A preset that the file builds on, with links, cores and names of its own; it has no sockets and switches then.
    model
        Of the GPUs.
    slices
        Into how many equal slices of memory each GPU is divided (MIG); default 0: it is not.
    cores
        With ``base``: the CPUs of each socket, in order.
    sockets, switches, nvswitches, links, gb_s
        The parts and what joins them.
    """

    name: str | None = Field(default=None, min_length=1)
    base: str | None = None
    model: str | None = None
    slices: Annotated[int, Field(strict=True, ge=0, le=64)] | None = None
    cores: list[Cpus] | None = None
    sockets: list[SocketTable] = Field(default_factory=list)
    switches: list[SwitchTable] = Field(default_factory=list)
    nvswitches: list[NvswitchTable] = Field(default_factory=list)
    links: list[LinkTable] = Field(default_factory=list)
    gb_s: BandwidthTable | None = None


def checked(content: Mapping[str, Any], where: str) -> MachineFile:
    """The keys of a file, checked one by one.

    Raises
    ------
    ClusterError
        A key is unknown, missing, or has a value that cannot be; it names the first.
    """
    try:
        file = MachineFile.model_validate(content)
    except ValidationError as error:
        fault = first_fault(error.errors())
        key = ".".join(map(str, fault["loc"])) or "the whole"
        raise ClusterError(f"{where}, {key}", *got_and_want(fault, _known(fault["loc"]))) from None
    if file.base is None and not file.sockets:
        raise ClusterError(where, "no sockets", "[[sockets]], or base = the name of a preset")
    if file.base is not None and (file.sockets or file.switches or file.nvswitches):
        raise ClusterError(f"{where}, base", "sockets or switches beside it", "only links, cores, gb_s, and names")
    if file.base is None and file.cores is not None:
        raise ClusterError(f"{where}, cores", "a list for the machine", "cores in each of [[sockets]]")
    return file


def _known(path: tuple[int | str, ...]) -> list[str]:
    """The keys of the table in which a fault is."""
    tables: dict[str, type[BaseModel]] = {
        "sockets": SocketTable,
        "switches": SwitchTable,
        "nvswitches": NvswitchTable,
        "links": LinkTable,
        "gb_s": BandwidthTable,
    }
    return list(tables.get(str(path[0]) if len(path) > 1 else "", MachineFile).model_fields)
