"""A machine from the keys of a file of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, Field, PlainValidator, model_validator

from unrack.errors import ClusterError
from unrack.resources.checked import Strict, validated
from unrack.resources.gpus.machines.machine import (
    ACROSS,
    BUS,
    GPU,
    MACHINE,
    NEAR,
    NVLINK,
    NVSWITCH,
    PCIE,
    SOCKET,
    SWITCH,
    Link,
    Machine,
    Vertex,
    numbers_of,
    preset,
    weight_of,
)

MOST_GPUS = 64
MOST_WEIGHT = 1_000_000


def machine_from(content: Mapping[str, Any], where: str, name: str = "machine") -> Machine:
    """The machine that the keys describe.

    ``content``: the keys, as of a TOML file: see :class:`unrack.resources.gpus.machines.reading.from_file.MachineFile`;
    ``where``: what errors call the source; ``name``: what to call the machine if it has no name of its own. A
    ClusterError if a key is unknown or has a wrong value; a part does not exist or comes twice; GPUs are left out or
    cannot reach each other; some links have a bandwidth and others have none.
    """
    file = checked(content, where)
    build = _Build(file, where)
    base = None if file.base is None else preset(file.base, f"{where}, base")
    cores = tuple(socket.cores for socket in file.sockets)
    if base is None:
        build.parts(file.name or name)
    else:
        build.start_from(base)
        cores = base.cores if file.cores is None else tuple(file.cores)
        if cores and len(cores) != len(base.sockets):
            raise ClusterError(f"{where}, cores", f"{len(cores)} lists", f"{len(base.sockets)}, one for each socket")
    for number, link in enumerate(file.links):
        build.link(link, f"{where}, links.{number}")
    return Machine(
        file.name or (name if base is None else base.name),
        tuple(build.vertices),
        build.links(),
        (base.model if base else "") if file.model is None else file.model,
        cores if any(cores) else (),
        (base.slices if base else 0) if file.slices is None else file.slices,
    )


class _Asked(NamedTuple):
    """A link as the file asks for it: its weight or bandwidth where given, its usual weight and width, and where."""

    a: int
    b: int
    kind: str
    weight: int | None
    gb_s: float | None
    where: str
    usual: int = NEAR
    width: float = 0


class _Build:
    """Parts by name, and links between them, while a file is read; a later link replaces one between the same parts."""

    def __init__(self, file: MachineFile, where: str) -> None:
        self.file = file
        self.where = where
        self.vertices: list[Vertex] = []
        self.asked: dict[frozenset[int], _Asked] = {}
        self.at: dict[str, int] = {}

    def start_from(self, base: Machine) -> None:
        self.vertices = list(base.vertices)
        self.at = {vertex.name: number for number, vertex in enumerate(base.vertices)}
        for a, b, weight, kind, width in base.links:
            self.asked[frozenset((a, b))] = _Asked(a, b, kind, None, None, self.where, weight, width)

    def parts(self, name: str) -> None:
        """All parts of the file: the machine, sockets, switches, GPUs in order of their numbers, NVSwitches."""
        file = self.file
        root = self._vertex(MACHINE, name, self.where)
        carriers: list[tuple[int, SocketTable | SwitchTable, str]] = []
        for i, socket in enumerate(file.sockets):
            where = f"{self.where}, sockets.{i}"
            number = self._vertex(SOCKET, socket.name or f"socket {i}", where)
            self._ask(_Asked(root, number, BUS, socket.weight, socket.gb_s, where, ACROSS))
            carriers.append((number, socket, where))
        for i, switch in enumerate(file.switches):
            where = f"{self.where}, switches.{i}"
            parent = self._carrier(switch.on, where)
            number = self._vertex(SWITCH, switch.name or f"switch {i}", where)
            self._ask(_Asked(parent, number, PCIE, switch.weight, switch.gb_s, where))
            carriers.append((number, switch, where))
        home = {}
        for number, carrier, where in carriers:
            for gpu in carrier.gpus:
                if gpu in home:
                    raise ClusterError(f"{where}, gpus", f"GPU {gpu} a second time", "each GPU in one place")
                home[gpu] = (number, carrier.gpu_weight, carrier.gpu_gb_s, where)
        for gpu in range(len(home)):
            if gpu not in home:
                raise ClusterError(self.where, f"{len(home)} GPUs, but no GPU {gpu}", "GPUs numbered from 0")
            parent, weight, gb_s, where = home[gpu]
            self._ask(_Asked(parent, self._vertex(GPU, f"GPU{gpu}", where), PCIE, weight, gb_s, f"{where}, gpus"))
        for i, nvswitch in enumerate(file.nvswitches):
            where = f"{self.where}, nvswitches.{i}"
            number = self._vertex(NVSWITCH, nvswitch.name or ("NVSwitch" if i == 0 else f"NVSwitch {i}"), where)
            for gpu in range(len(home)) if nvswitch.gpus is None else nvswitch.gpus:
                self._ask(
                    _Asked(number, self._number(gpu, where), NVLINK, nvswitch.gpu_weight, nvswitch.gpu_gb_s, where)
                )

    def link(self, table: LinkTable, where: str) -> None:
        a, b = (self._number(end, where) for end in table.between)
        if a == b:
            raise ClusterError(where, f"a link from {self.vertices[a].name} to itself", "two parts")
        kinds = {self.vertices[a].kind, self.vertices[b].kind}
        before = self.asked.get(frozenset((a, b)))
        usual = NVLINK if kinds <= {GPU, NVSWITCH} else BUS if kinds <= {SOCKET, MACHINE} else PCIE
        kind = table.kind or (before.kind if before else usual)
        if table.width is not None and kind != NVLINK:
            raise ClusterError(
                f"{where}, width", f"{table.width:g} of a link of the kind {kind}", f"a width of {NVLINK}"
            )
        self._ask(_Asked(a, b, kind, table.weight, table.gb_s, where, width=table.width or 0))

    def links(self) -> tuple[Link, ...]:
        """All links with their weights; where one has a bandwidth, all must have one, their own or that of their kind.

        A ClusterError if some links have a bandwidth and another has none.
        """
        by_kind = self.file.gb_s
        if by_kind is None and all(link.gb_s is None for link in self.asked.values()):
            return tuple(
                Link(a, b, usual if weight is None else weight, kind, width)
                for a, b, kind, weight, _, _, usual, width in self.asked.values()
            )
        found = []
        for a, b, kind, weight, own, where, _, width in self.asked.values():
            of_kind = getattr(by_kind, kind) if by_kind is not None else None
            gb_s = own or (of_kind and of_kind * (width or 1))
            if gb_s is None or weight is not None:
                got = f"no bandwidth of the link {self.vertices[a].name} to {self.vertices[b].name}"
                raise ClusterError(where, got, f"gb_s for all links or for none; gb_s = {{{kind} = …}} is of a kind")
            found.append(Link(a, b, weight_of(gb_s), kind))
        return tuple(found)

    def _ask(self, link: _Asked) -> None:
        self.asked[frozenset((link.a, link.b))] = link

    def _vertex(self, kind: str, name: str, where: str) -> int:
        if name in self.at:
            raise ClusterError(where, f"the name {name!r} a second time", "a name for each part")
        self.at[name] = len(self.vertices)
        self.vertices.append(Vertex(kind, name))
        return self.at[name]

    def _carrier(self, end: int | str, where: str) -> int:
        found = self.at.get(f"socket {end}" if isinstance(end, int) else end)
        if found is None or self.vertices[found].kind not in (SOCKET, SWITCH):
            known = [v.name for v in self.vertices if v.kind in (SOCKET, SWITCH)]
            raise ClusterError(f"{where}, on", repr(end), f"one of {', '.join(known)}")
        return found

    def _number(self, end: int | str, where: str) -> int:
        found = self.at.get(f"GPU{end}" if isinstance(end, int) else end)
        if found is None:
            raise ClusterError(where, repr(end), f"one of {', '.join(self.at)}")
        return found


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


class _Weighed(Strict):
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


class BandwidthTable(Strict):
    """A ``[gb_s]`` table: what links of each kind carry, GB/s, where they do not say it themselves.

    Of an NVLink of known width: each of so many.
    """

    pcie: Bandwidth | None = None
    nvlink: Bandwidth | None = None
    bus: Bandwidth | None = None


class MachineFile(Strict):
    """The keys of a file with a machine."""

    name: str | None = Field(default=None, min_length=1)  # default: the name of the file
    # a preset that the file builds on, with links, cores and names of its own; it has no sockets and switches then
    base: str | None = None
    model: str | None = None  # of the GPUs
    # into how many equal slices of memory each GPU is divided (MIG); default 0: it is not
    slices: Annotated[int, Field(strict=True, ge=0, le=64)] | None = None
    cores: list[Cpus] | None = None  # with ``base``: the CPUs of each socket, in order
    # sockets, switches, nvswitches, links, gb_s: the parts and what joins them
    sockets: list[SocketTable] = Field(default_factory=list)
    switches: list[SwitchTable] = Field(default_factory=list)
    nvswitches: list[NvswitchTable] = Field(default_factory=list)
    links: list[LinkTable] = Field(default_factory=list)
    gb_s: BandwidthTable | None = None


def checked(content: Mapping[str, Any], where: str) -> MachineFile:
    """The keys of a file, checked one by one.

    A ClusterError if a key is unknown, missing, or has a value that cannot be; it names the first.
    """
    file = validated(MachineFile.model_validate, content, f"{where}, ", _known)
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
