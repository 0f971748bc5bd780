"""What a system says of its site – partitions, features, qualities of service, accounts – as the table ``site``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from unrack.errors import ClusterError
from unrack.resources.site.kept import COUNTED, amounts_of, keeps_of
from unrack.resources.site.keys import ReservationFile
from unrack.slurm_text.hostlists import compress
from unrack.slurm_text.values import UNKNOWN, span_s
from unrack.units import seconds_text, time_us

if TYPE_CHECKING:
    from unrack.cluster.formats.described import DescribedNode

Keys = dict[str, Any]
"""Keys of a table of the cluster file."""
Lost = dict[str, dict[str, str]]
"""A sentence up to its colon → the owners of which it is true → what is said there."""
V = TypeVar("V")
T = TypeVar("T")
_SHOWN = 8
OWN_QOS = "own qos"
"""The key of a partition for the quality of service that bounds all of its jobs; no key of the cluster file."""


KEPT_CORES = "kept cores"
"""The key of a reservation for how many cores it keeps of each of its nodes at most; no key of the cluster file."""
ALL = "ALL"
"""In place of the names of all nodes."""


@dataclass(frozen=True)
class SaidSite:
    """What one or more files say."""

    # name → keys of its table but its name, and the nodes of a partition
    partitions: Mapping[str, Keys] = field(default_factory=dict)
    qos: Mapping[str, Keys] = field(default_factory=dict)
    accounts: Mapping[str, Keys] = field(default_factory=dict)
    members: Mapping[str, Sequence[str]] = field(default_factory=dict)  # partition → its nodes, or ALL, where it says
    reservations: Mapping[str, Keys] = field(default_factory=dict)  # the same of each; its nodes by name, or ALL
    flavours: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # partition → labels that its nodes have
    limits: Sequence[Keys] = ()  # of all jobs
    rules: Keys = field(default_factory=dict)  # the tables ``priority``, ``preempt`` and ``queues``
    lost: Lost = field(default_factory=dict)  # what is not taken over
    lost_of_partitions: Lost = field(default_factory=dict)  # the same, by partition
    enforced: bool | None = None  # whether limits of accounts and QOS hold; ``None``: not said, they do

    def then(self, later: SaidSite) -> SaidSite:
        """What both say; of what both say, the later counts."""
        return SaidSite(
            {**self.partitions, **later.partitions}, {**self.qos, **later.qos}, {**self.accounts, **later.accounts},
            {**self.members, **later.members}, {**self.reservations, **later.reservations},
            {**self.flavours, **later.flavours},
            later.limits or self.limits, {**self.rules, **later.rules},
            _both(self.lost, later.lost),
            _both(self.lost_of_partitions, later.lost_of_partitions),
            self.enforced if later.enforced is None else later.enforced,
        )  # fmt: skip

    def without_limits(self) -> SaidSite:
        """The same without limits of accounts and qualities of service: where they are not enforced."""

        def free(keys: Keys) -> Keys:
            users = [one if isinstance(one, str) else free(one) for one in keys.get("users", ())]
            own = {key: value for key, value in keys.items() if key not in ("limits", "max_time", "users")}
            return own | ({"users": users} if users else {})

        qos, accounts = ({name: free(keys) for name, keys in of.items()} for of in (self.qos, self.accounts))
        rules = {key: value for key, value in self.rules.items() if key != "nearest_limits"}
        return replace(self, qos=qos, accounts=accounts, limits=(), rules=rules)


def _both(first: Lost, second: Lost) -> Lost:
    return {text: {**first.get(text, {}), **second.get(text, {})} for text in (*first, *second)}


def lose(lost: Lost, text: str, owner: str, said: str = "") -> None:
    """Note what is not taken over."""
    lost.setdefault(text, {})[owner] = said


def sentences(lost: Lost) -> list[str]:
    """One for each kind of what is not taken over.

    Examples
    --------
    >>> sentences({"GraceTime of partitions is not taken over": {"gpu": "60", "night": ""}})
    ['GraceTime of partitions is not taken over: gpu (60), night.']
    """
    found = []
    for text, owners in lost.items():
        listed = [f"{owner} ({said})" if said else owner for owner, said in owners.items()]
        more = f" … ({len(listed)} in all)" if len(listed) > _SHOWN else ""
        found.append(f"{text}: {', '.join(listed[:_SHOWN])}{more}.")
    return found


def site_table(
    said: SaidSite,
    nodes: Sequence[DescribedNode],
    partition: str | None = None,
    counters: Mapping[str, int] | None = None,
) -> tuple[Keys, list[str]]:
    """The table ``site`` of some nodes, and what is not taken over, a sentence each.

    ``said``: what is known beside the nodes, each of which knows its partitions and features; ``partition``: the only
    one to keep; ``counters``: how many licences there are, by counter.
    """
    lost, names = _both(said.lost, {}), dict.fromkeys(said.partitions)
    if said.enforced is False and (free := said.without_limits()) != said:
        lose(lost, "Limits of accounts and QOS are left out, as none is enforced", "AccountingStorageEnforce")
        said = free
    names |= dict.fromkeys(sorted({name for node in nodes for name in node.partitions}))
    partitions = []
    for name in names if partition is None else [partition]:
        inside = [node.name for node in nodes if name in node.partitions]
        if not inside:
            lose(lost, "Partitions without nodes that are kept are left out", name)
            continue
        if name not in said.partitions:
            lose(lost, "Partitions of which only the nodes are known are open to all", name)
        own = dict(said.partitions.get(name, {}))
        if (of := own.pop(OWN_QOS, "")) and of not in said.qos:
            lose(lost, "Limits of partitions by a QOS of which nothing is said are not taken over", name, of)
        elif of:
            own = _bounded_too(own, said.qos[of])
        if own.get("whole_nodes") and len({node.cores for node in nodes if name in node.partitions}) > 1:
            del own["whole_nodes"]
            lose(lost, "Partitions with OverSubscribe=EXCLUSIVE with nodes of unlike cores share them here", name)
        # without a list it has all nodes, also those that are added to the cluster file
        listed = {} if len(inside) == len(nodes) else {"nodes": [compress(inside)]}
        partitions.append({"name": name, **listed, **own})
    last = [one["name"] for one in partitions if one.get("default")][-1:]
    for one in partitions:
        if one["name"] not in last:
            one.pop("default", None)
    table: Keys = {"partitions": partitions, "features": _features(nodes)}
    for key, known in (("qos", said.qos), ("accounts", said.accounts)):
        named = [name for one in partitions for name in (*(one.get(key) or ()), *one.get(f"denied_{key}", ()))]
        table[key] = [{"name": name, **known.get(name, {})} for name in dict.fromkeys([*known, *named])]
    table["limits"] = list(said.limits)
    if reservations := _reservations(said, nodes, counters or {}, lost):
        table["reservations"] = reservations
    table |= said.rules
    table["queues"] = [
        _of_flavours(one, {one["name"] for one in partitions}, lost) for one in said.rules.get("queues", ())
    ]
    by_qos = said.rules.get("preempt", {}).get("by") == "qos"
    for one in table["qos"]:
        named = [name for name in one.pop("preempts", ()) if by_qos]
        table["qos"] += [{"name": name} for name in named if name not in {other["name"] for other in table["qos"]}]
        one |= {"preempts": named} if named else {}
    for one in [] if "preempt" in said.rules else [*partitions, *table["qos"]]:
        one.pop("preempt_mode", None)
    for text, owners in said.lost_of_partitions.items():
        for name, value in owners.items():
            if partition in (None, name):
                lose(lost, text, name, value)
    return {key: value for key, value in table.items() if value}, sentences(lost)


def _of_flavours(queue: Keys, partitions: Collection[str], lost: Lost) -> Keys:
    """A queue, of its quotas those in partitions that there are; without any it is closed."""
    quotas = list[Keys]()
    for quota in queue["quotas"]:
        where = [name for name in quota.get("partitions", [quota.get("flavour", "")]) if name in ("", *partitions)]
        quotas += [quota | ({"partitions": where} if "partitions" in quota else {})] if where else []
    own, measures = queue | {"quotas": quotas}, {name for quota in quotas for name in quota["nominal"]}
    if len({"flavour" in quota for quota in quotas}) < len({"flavour" in quota for quota in queue["quotas"]}):
        lose(lost, "Queues of which no flavour has nodes that are kept are closed", queue["name"])
        return own | {"open": False}  # without a flavour its jobs would run anywhere
    if gone := [name for quota in queue["quotas"] for name in quota["nominal"] if name not in measures]:
        text = "Queues have none of what is only in flavours without nodes that are kept"
        lose(lost, text, queue["name"], ", ".join(dict.fromkeys(gone)))
        none = dict.fromkeys(gone, 0)
        some: Keys = next((quota for quota in quotas if "flavour" not in quota), {"nominal": {}, "borrow": {}})
        more = some | {"nominal": some["nominal"] | none, "borrow": some.get("borrow", {}) | none}
        own["quotas"] = [*(quota for quota in quotas if quota is not some), more]
        if "cohort" not in queue:
            del more["borrow"]
    return own


def _reservations(
    said: SaidSite, nodes: Sequence[DescribedNode], counters: Mapping[str, int], lost: Lost
) -> list[Keys]:
    """The reservations of nodes that there are, and of licences and cores as far as there are enough."""
    found, kept, keeping = list[Keys](), dict[str, dict[str | int, int]](), list[ReservationFile]()
    installed: dict[str | int, int] = {f"{COUNTED}{name}": amount for name, amount in counters.items()}
    installed |= {i: node.cores for i, node in enumerate(nodes)}
    for name, keys in said.reservations.items():
        one, wanted = {"name": name, **keys}, set(keys.get("nodes", ()))
        inside = [i for i, node in enumerate(nodes) if node.name in wanted or ALL in wanted]
        some = one.pop(KEPT_CORES, None)
        cores = {i: min(some[nodes[i].name], nodes[i].cores) for i in inside if some and some.get(nodes[i].name, 0)}
        cores = {} if all(own == nodes[i].cores for i, own in cores.items()) else cores
        inside = [i for i in inside if i in cores] or inside
        one.pop("nodes", None)
        file = ReservationFile.model_validate({"nodes": ["0"], **one})

        def enough(own: Mapping[str | int, int], file: ReservationFile = file) -> bool:
            kept[file.name] = {**kept.get(file.name, {}), **own}
            try:
                keeps_of([*keeping, file], kept, installed)
            except ValueError:
                kept[file.name] = {what: count for what, count in kept[file.name].items() if what not in own}
                return False
            return True

        if not enough(dict(cores.items())):
            cores = {}
            lose(lost, "Reservations of more cores of a node than it has keep the whole nodes here", name)
        if short := [what for what, count in amounts_of(file).items() if not enough({what: count})]:
            seats = one.pop("licences")
            few = ", ".join(f"{count} {seat}" for seat, count in seats.items() if COUNTED + seat in short)
            lose(lost, "Licences of reservations of which there are too few are not kept", name, few)
            rest = {seat: count for seat, count in seats.items() if COUNTED + seat not in short}
            one |= {"licences": rest} if rest else {}
        keeping.append(file)
        if inside:
            by_count = {count: [i for i in cores if cores[i] == count] for count in cores.values()}
            one["nodes"] = [compress(nodes[i].name for i in own) for own in by_count.values() or [inside]]
            one |= {"cores": [*by_count]} if cores else {}
        if "nodes" in one or "licences" in one:
            found.append(one)
        else:
            lose(lost, "Reservations without nodes that are kept are left out", name)
    return found


def _bounded_too(own: Keys, qos: Keys) -> Keys:
    """A partition that is bounded by a quality of service, too."""
    found = own | {"limits": [*own.get("limits", ()), *qos.get("limits", ())]}
    if times := [one["max_time"] for one in (own, qos) if "max_time" in one]:
        found["max_time"] = min(times, key=time_us)
    return {key: value for key, value in found.items() if key != "limits" or value}


def _features(nodes: Sequence[DescribedNode]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for node in nodes:
        for feature in node.features:
            found.setdefault(feature, []).append(node.name)
    return {feature: [compress(names)] for feature, names in found.items()}


# --- how such files say things --------------------------------------------------------------------------------------


def parsed(value: V, where: str, parse: Callable[[V], T]) -> T:
    """What a value says. A ClusterError if ``parse`` raised a ValueError; the error begins with ``where``."""
    try:
        return parse(value)
    except ValueError as error:
        got = repr(value[:80] if isinstance(value, str) else value)[:90]
        raise ClusterError(where, got, str(error).rpartition(" is not ")[2]) from None


def host_name(name: str, at: str) -> str:
    """The name of a node, which a list of hosts can have."""
    return parsed(name, at, lambda text: compress([text]))


def once(name: str, known: Container[str], at: str) -> str:
    """A name. A ClusterError if it is known already."""
    if name in known:
        raise ClusterError(at, f"{name} once more", "each once, as Slurm has it")
    return name


def max_time(text: str, at: str) -> Keys:
    """The key ``max_time`` from a span, which Slurm keeps in whole minutes, rounded up; none: any time."""
    seconds = None if text.strip() == "-1" else parsed(text, at, span_s)
    if seconds is None:
        return {}
    seconds = -(-seconds // 60) * 60
    words = seconds_text(seconds)
    return {"max_time": words if time_us(words) == round(seconds * 1e6) else round(seconds)}


def whole(text: str, at: str) -> int:
    """A whole number of 0 or more."""
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        raise ClusterError(at, repr(text[:80]), "a whole number of 0 or more")
    return int(text)


def says_nothing(text: str) -> bool:
    """Whether a value is what Slurm shows where nothing is said."""
    return text.strip().lower() in UNKNOWN | _NOTHING


_NOTHING = frozenset(
    {"unlimited", "infinite", "no", "off", "all", "global", "cluster", "0", "00:00:00", "1.000000", "normal", "default"}
)


def lower(names: Iterable[str]) -> list[str]:
    """Names of accounts and qualities of service, which Slurm keeps in small letters."""
    return [name.strip().lower() for name in names if name.strip()]
