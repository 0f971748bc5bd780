"""What a Slurm site says of accounts, of priority and of preemption.

Accounts and qualities of service come from ``sacctmgr dump``, ``sacctmgr show assoc -P`` and ``… show qos -P``; which
job is first and which is stopped (``priority``, ``preempt``, ``over_time``) from ``slurm.conf``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from unrack.cluster.formats.described import Described, counter
from unrack.cluster.formats.site import Keys, Lost, SaidSite, lose, lower, max_time, once, parsed, says_nothing, whole
from unrack.errors import ClusterError
from unrack.slurm_text.tres import tres
from unrack.slurm_text.values import ENDLESS, UNKNOWN, span_s

_WEIGHTS = {
    "PriorityWeightAge": "age", "PriorityWeightFairshare": "fair_share", "PriorityWeightJobSize": "job_size",
    "PriorityWeightPartition": "partition", "PriorityWeightQOS": "qos", "PriorityWeightAssoc": "association",
}  # fmt: skip
_WEIGHED = {"cpu": "cores", "mem": "memory_gb", "node": "nodes"}
_TIMES = {"PriorityDecayHalfLife": "half_life", "PriorityMaxAge": "max_age", "PriorityCalcPeriod": "calc_period"}
MODES = {"requeue": "requeue", "cancel": "cancel", "suspend": "suspend", "off": "off"}
"""What becomes of jobs that are preempted, as Slurm calls it."""


def priority_of(settings: Mapping[str, str], where: str, lost: Lost) -> Keys:
    """The keys of ``site.priority``; none: the first that comes is first, as by priority/basic or without weights."""
    if settings.get("prioritytype", "").lower().endswith("basic"):
        return {}
    found: Keys = {}
    for key, name in _WEIGHTS.items():
        if (text := settings.get(key.lower(), "")) and (weight := whole(text, f"{where}, {key}")):
            found[name] = weight
    text = settings.get("priorityweighttres", "")
    for kind, _, number in [] if says_nothing(text) else [part.strip().partition("=") for part in text.split(",")]:
        factor = _factor(number, f"{where}, PriorityWeightTRES")
        if factor and (measure := _WEIGHED.get(kind.lower())):
            found.setdefault("tres", {})[measure] = factor
            lose(lost, "Of priorities TRES weigh by what the cluster has, not the partition", kind)
        elif factor:
            lose(lost, "Of priorities is not taken over", f"PriorityWeightTRES={kind}={number}")
    if not found:
        return {}
    for key, name in _TIMES.items():
        if text := settings.get(key.lower(), ""):
            found[name] = _seconds(text, f"{where}, {key}")
    if settings.get("priorityfavorsmall", "").upper() in ("YES", "1", "TRUE"):
        found["favor_small"] = True
    if not says_nothing(text := settings.get("fairsharedampeningfactor", "1")) and text != "1":
        found["dampening"] = whole(text, f"{where}, FairShareDampeningFactor")
    flags = {flag.strip().upper() for flag in settings.get("priorityflags", "").split(",") if flag.strip()}
    if "NO_FAIR_TREE" in flags:
        found["fair_share_by"] = "classic"
    if "SMALL_RELATIVE_TO_TIME" in flags:
        found["small_relative_to_time"] = True
    for flag in sorted(flags - {"NO_FAIR_TREE", "SMALL_RELATIVE_TO_TIME"}):
        lose(lost, "Flags of priorities are not taken over", flag)
    for key in ("PriorityUsageResetPeriod", "PrioritySiteFactorPlugin"):
        if not says_nothing(text := settings.get(key.lower(), "")):
            lose(lost, "Of priorities is not taken over", f"{key}={text}")
    return found


def preempt_of(settings: Mapping[str, str], where: str, lost: Lost) -> Keys:
    """The keys of ``site.preempt``; none: no job is stopped for others."""
    kind, said = settings.get("preempttype", "").lower(), settings.get("preemptmode", "off").lower()
    by = {"preempt/partition_prio": "partition", "preempt/qos": "qos"}.get(kind)
    modes = [MODES[part.strip()] for part in said.split(",") if part.strip() in MODES]
    if by is None:
        if not says_nothing(kind) and kind != "preempt/none":
            lose(lost, "Jobs are not preempted", f"PreemptType={kind}")
        return {}
    if not modes:
        lose(lost, "Jobs are not preempted", f"PreemptMode={said}")
        return {}
    found: Keys = {"by": by, "mode": modes[0]}
    if not any("youngest_first" in settings.get(key, "") for key in ("preemptparameters", "schedulerparameters")):
        lose(lost, "Which jobs are preempted first is not taken over", "of the lowest those of the fewest nodes")
    for key in ("PreemptParameters", "JobRequeue"):
        if (text := settings.get(key.lower(), "")) not in ("", "youngest_first", "1"):
            lose(lost, "Of preemption is not taken over", f"{key}={text}")
    if text := settings.get("preemptexempttime", ""):
        found["exempt_time"] = _seconds(text, f"{where}, PreemptExemptTime")
    return found


def over_time(text: str, at: str) -> Keys:
    """The key ``over_time`` of a site or partition from minutes; none: nothing is said."""
    if text.strip().lower() in UNKNOWN | ENDLESS:
        return {}
    return {"over_time": f"{whole(text.strip(), at)} min"}


def _seconds(text: str, at: str) -> int:
    seconds = parsed(text, at, span_s)
    return 0 if seconds is None or seconds < 0 else round(seconds)


_ENTRY = re.compile(r"""(Cluster|Parent|Account|User)\s+-\s+(?:'([^']*)'|"([^"]*)"|([^\s:'"]+))\s*(?::(.*))?""")
DUMP = re.compile(r"^(Cluster|Parent|Account|User)\s+-\s+\S", re.MULTILINE)
"""What a line of a dump looks like."""
_OPTION = re.compile(r"""(?:'[^']*'|"[^"]*"|gres/[\w-]+:|:(?![A-Za-z]\w*\+?=)|[^:'"])+""")
_LIMIT = re.compile(r"(grp|max)(tres|cpus?|nodes?|mem|jobs)(?:p(?:er)?([jua])\w*)?")
_PER = {"j": "job", "u": "user", "a": "account"}
_MEASURES = {"cpu": "cores", "node": "nodes", "mem": "memory", "gres/gpu": "gpus.count"}
"""TRES → what a limit is of."""
_ROOT = "root"
_SHARES = ("fairshare", "share", "shares", "rawshares")
_PARENT = ("parent", "2147483647")
"""In place of shares: users compete as if they were the account itself."""
_QUIET = (
    "cluster account user partition parname parentname name descr description org organization id defaultaccount "
    "adminlevel coordinator coordinators lft rgt lineage"
)


class _Row(NamedTuple):
    at: str
    account: str
    parent: str
    user: str
    fields: dict[str, str]  # as the file spells its keys

    def said(self, *keys: str) -> str:
        """The first of some fields, by plain keys."""
        return next((value for key, value in self.fields.items() if _plain(key) in keys), "")


def _plain(key: str) -> str:
    return re.sub(r"[^a-z]", "", key.lower())


def dumped(text: str, where: str, name: str) -> Described:
    """Read what ``sacctmgr dump`` wrote. A ClusterError if a line is none of a dump, or has a value that cannot be."""
    return Described(where, name, (), site=_site(list(_dump(text, where)), where))


def _dump(text: str, where: str) -> Iterator[_Row]:
    parent, known, cluster = _ROOT, {_ROOT}, ""
    for number, line in enumerate(text.split("\n"), 1):
        at, bare = f"{where}, line {number}", line.strip()
        if not bare or bare.startswith("#"):
            continue
        match = _ENTRY.fullmatch(bare)
        if match is None:
            raise ClusterError(at, repr(bare[:80]), "Cluster, Parent, Account or User - 'NAME':KEY=VALUE…")
        name = next(one for one in match.group(2, 3, 4) if one is not None)
        fields = {}
        for option in _OPTION.findall(match[5] or ""):
            key, equals, value = option.partition("=")
            if not equals:
                raise ClusterError(at, repr(option[:80]), "KEY=VALUE between colons")
            fields[key.strip().rstrip("+")] = value.strip().strip("'\"")
        if match[1] == "Parent":
            parent = name.lower()
            if parent not in known:
                raise ClusterError(f"{at}, Parent", repr(name), f"an account of a line before: {', '.join(known)}")
        elif match[1] == "Cluster":
            if cluster:
                raise ClusterError(at, f"clusters {cluster} and {name}", "one, as sacctmgr dump NAME writes it")
            cluster = name
            yield _Row(at, _ROOT, "", "", fields)
        elif match[1] == "Account":
            known.add(name.lower())
            yield _Row(at, name.lower(), parent, "", fields)
        else:
            yield _Row(at, parent, "", name, fields)


def heads(text: str) -> str:
    """Which table of ``sacctmgr`` a text is: ``assoc``, ``qos``, or ``""``: none."""
    keys = {_plain(key) for key in _first(text).split("|")} if "|" in _first(text) else set()
    if "account" in keys and "jobid" not in keys and keys & {*_SHARES, "user"}:
        return "assoc"
    return "qos" if "name" in keys and keys & {"priority", "usagefactor", "maxtrespu", "grptres"} else ""


def _first(text: str) -> str:
    return next((line for line in text.split("\n") if line.strip()), "")


def listed(text: str, where: str, name: str) -> Described:
    """Read a table that ``sacctmgr show`` printed with ``-P`` or ``-p``.

    A ClusterError if a row has more or fewer fields than the header, or a value that cannot be.
    """
    rows = list(_table(text, where))
    site = _qos(rows) if heads(text) == "qos" else _site(_associations(rows, where), where)
    return Described(where, name, (), site=site)


def _table(text: str, where: str) -> Iterator[tuple[str, dict[str, str]]]:
    header: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        values, at = line.split("|"), f"{where}, line {number}"
        if not header:
            header = values
        elif len(values) != len(header):
            raise ClusterError(at, f"{len(values)} fields", f"{len(header)}, as in the header")
        elif values != header:
            yield at, {key.strip(): value for key, value in zip(header, values, strict=True) if key.strip()}


def _associations(rows: list[tuple[str, dict[str, str]]], where: str) -> list[_Row]:
    found: list[_Row] = []
    above: list[tuple[int, str]] = []  # accounts that a tree of blanks has a row in
    for at, fields in rows:
        row = _Row(at, "", "", "", fields)
        indented, user = row.said("account"), row.said("user").strip()
        depth, account = len(indented) - len(indented.lstrip()), indented.strip().lower()
        parent = row.said("parname", "parentname").strip().lower()
        if not user:
            while above and above[-1][0] >= depth:
                above.pop()
            parent = parent or (above[-1][1] if above else "")
            above.append((depth, account))
        found.append(_Row(at, account, parent or _ROOT, user, fields))
    clusters = sorted({row.said("cluster") for row in found} - {""})
    if len(clusters) > 1:
        raise ClusterError(where, f"clusters {', '.join(clusters)}", "one: sacctmgr show assoc cluster=NAME -P")
    return found


def _site(rows: list[_Row], where: str) -> SaidSite:
    accounts, lines, lost = dict[str, Keys](), dict[str, _Row](), Lost()
    root, seen = Keys(), set[str]()
    for row in rows:
        if row.user or row.account != _ROOT:
            seen.add(once(f"{row.user or 'account'} in {row.account} {row.said('partition')}".strip(), seen, row.at))
        if row.user:
            continue
        keys = _bounds(row.fields, f"account {row.account}", row.at, lost)
        if row.account == _ROOT:
            root |= keys
            continue
        parent = {} if row.parent == _ROOT else {"parent": row.parent}
        accounts[row.account], lines[row.account] = {**parent, **_shares(row), **keys}, row
    limits = _limits({key: most for key, most in _amounts(root).items() if key[0] == "all"}).get("limits", ())
    if any(row.user and row.account == _ROOT for row in rows):
        accounts[_ROOT] = {}
    for name, keys in accounts.items():  # in a dump an account is behind its parent; a table shows what it inherits
        accounts[name] = _inherited(keys, accounts.get(keys["parent"], {}) if "parent" in keys else root)
    users: dict[tuple[str, str], Keys] = {}
    for row in rows:
        if row.user:
            _add_user(row, accounts, users, lost)
    for (account, name), keys in users.items():
        accounts[account].setdefault("users", []).append({"name": name, **keys} if keys else name)
    _check_parents(accounts, lines)
    header = {_plain(key) for key in rows[0].fields} if rows else set()
    flat = not any(row.said("account").startswith(" ") for row in rows)  # no tree of blanks
    if "account" in header and "parname" not in header and flat:
        lose(lost, "All accounts are under the root, as no parents are said (format=…,ParentName)", where)
    return SaidSite(accounts=accounts, limits=limits, rules=_rules(accounts), lost=lost)


def _add_user(row: _Row, accounts: dict[str, Keys], users: dict[tuple[str, str], Keys], lost: Lost) -> None:
    owner = f"{row.user} in {row.account}"
    if row.account not in accounts:
        known = ", ".join(accounts) or "none is"
        raise ClusterError(f"{row.at}, Account", repr(row.account), f"an account that has a row of its own: {known}")
    if partition := row.said("partition").strip():
        lose(lost, "Associations of one partition are not taken over", owner, partition)
        users.setdefault((row.account, row.user), {})
        return
    above = accounts[row.account]
    keys = _bounds(row.fields, owner, row.at, lost)
    if "max_time" in keys and keys.pop("max_time") != above.get("max_time"):
        lose(lost, "MaxWall of users is not taken over", owner, row.said("maxwall", "maxwalldurationperjob"))
    of_account = _amounts(above)  # sacctmgr shows what users inherit as if it were their own
    own = {key: most for key, most in _amounts(keys).items() if key[0] == "all" or of_account.get(key) != most}
    first = {key: keys[key] for key in ("priority",) if key in keys and keys[key] != above.get(key)}
    users[row.account, row.user] = _shares(row) | first | _limits(own)


def _inherited(keys: Keys, above: Keys) -> Keys:
    """An account with what the one above allows to each user and each job where it says nothing itself."""
    each = {key: most for key, most in _amounts(above).items() if key[0] != "all"}
    usual: Keys = {key: above[key] for key in ("max_time", "priority") if key in above}
    return {**usual, **keys, **_limits({**each, **_amounts(keys)})}


def _check_parents(accounts: Mapping[str, Keys], rows: Mapping[str, _Row]) -> None:
    for name, row in rows.items():
        seen, parent = [name], accounts[name].get("parent", "")
        while parent:
            if parent not in accounts:
                raise ClusterError(f"{row.at}, parent of {seen[-1]}", repr(parent), f"root, {', '.join(accounts)}")
            if parent in seen:
                circle = " in ".join([*seen, parent])
                raise ClusterError(f"{row.at}, parents", circle, "accounts that are not in themselves")
            seen.append(parent)
            parent = accounts[parent].get("parent", "")


def _rules(tables: Mapping[str, Keys]) -> Keys:
    """How limits count, where there are some: as in Slurm."""
    every = [one for keys in tables.values() for one in (keys, *keys.get("users", ())) if isinstance(one, dict)]
    return {"nearest_limits": True} if any({"limits", "max_time"} & one.keys() for one in every) else {}


def _shares(row: _Row) -> Keys:
    text = row.said(*_SHARES).strip().lower()
    if text in _PARENT:
        return {"shares": "parent"}
    return {"shares": shares} if text and (shares := whole(text, f"{row.at}, Fairshare")) != 1 else {}


def _qos(rows: list[tuple[str, dict[str, str]]]) -> SaidSite:
    found, lost = dict[str, Keys](), Lost()
    for at, fields in rows:
        row = _Row(at, "", "", "", fields)
        name = row.said("name").strip().lower()
        if not name:
            raise ClusterError(f"{at}, Name", "nothing", "the name of a quality of service")
        taken = ("priority", "preempt", "preemptmode", "usagefactor")
        own = {key: value for key, value in fields.items() if _plain(key) not in taken}
        first = row.said("priority").strip()
        priority: Keys = {"priority": whole(first, f"{at}, Priority")} if first not in ("", "0") else {}
        if (mode := row.said("preemptmode").strip().lower()) in MODES:
            priority["preempt_mode"] = MODES[mode]
        elif mode not in ("", "cluster"):
            lose(lost, "PreemptMode of QOS is not taken over", name, mode)
        if preempts := lower(row.said("preempt").split(",")):
            priority["preempts"] = preempts
        if (factor := row.said("usagefactor").strip()) and not says_nothing(factor):
            priority["usage_factor"] = _factor(factor, f"{at}, UsageFactor")
        found[once(name, found, f"{at}, Name")] = priority | _bounds(own, f"QOS {name}", at, lost)
    return SaidSite(qos=found, rules=_rules(found), lost=lost)


def _factor(text: str, at: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = -1.0
    if not 0 <= factor < 1e6:
        raise ClusterError(at, repr(text[:80]), "a number of 0 or more")
    return factor


def _bounds(fields: Mapping[str, str], owner: str, at: str, lost: Lost) -> Keys:
    """``max_time`` and ``limits`` of an owner, and what else is said."""
    found, amounts = Keys(), dict[tuple[str, str], int]()
    for key, value in fields.items():
        plain, where = _plain(key), f"{at}, {key}"
        limit = _LIMIT.fullmatch(plain)
        if plain in (*_QUIET.split(), *_SHARES) or not value.strip():
            continue
        if plain.startswith("maxwall"):
            found |= max_time(value, where)
        elif plain == "priority":  # of qualities of service it is not among the fields
            found["priority"] = whole(value.strip(), where)
        elif limit is None:
            if not says_nothing(value):
                kind = "QOS" if owner.startswith("QOS ") else "accounts and users"
                lose(lost, f"{key} of {kind} is not taken over", owner.removeprefix("QOS "), value)
        elif limit[2] == "tres":
            per = "all" if limit[1] == "grp" else _PER[limit[3] or "j"]
            for part in value.strip(" ,").split(","):
                measure, most = _measured(part, where)
                if measure:
                    amounts[per, measure] = most
                else:
                    lose(lost, f"Limits of {part.partition('=')[0]} are not taken over", owner, f"{key} {part}")
        else:
            jobs = limit[2] == "jobs"
            per = "all" if limit[1] == "grp" else _PER[limit[3] or ("u" if jobs else "j")]
            measure = "jobs" if jobs else _MEASURES[limit[2].rstrip("s")]
            amounts[per, measure] = whole(value.strip(), where)
    return found | _limits(amounts)


def _measured(part: str, where: str) -> tuple[str, int]:
    """What a limit of one TRES is of, and how much; ``""``: nothing that is counted here."""
    kind, equals, number = part.strip().partition("=")
    if not equals or number.startswith("-"):
        raise ClusterError(where, repr(part[:80]), "amounts of 0 or more, such as cpu=100,mem=1T,gres/gpu=8")
    said = parsed(f"{kind.lower()}={number}", where, tres)
    if kind.lower().startswith("license/"):
        return f"counted.{counter(kind.partition('/')[2])}", next(iter(said.licences.values()))
    counts = {"cpu": said.cpus, "node": said.nodes, "mem": said.mem_mb, "gres/gpu": said.gres.get("gpu")}
    most = counts.get(kind.lower())
    return ("", 0) if most is None else (_MEASURES[kind.lower()], most)


def _limits(amounts: Mapping[tuple[str, str], int]) -> Keys:
    limits: dict[str, dict[str, int]] = {}
    for (per, measure), most in amounts.items():
        limits.setdefault(per, {})[measure] = most
    return {"limits": [{"per": per, "amounts": own} for per, own in limits.items()]} if limits else {}


def _amounts(keys: Keys) -> dict[tuple[str, str], int]:
    return {(one["per"], measure): most for one in keys.get("limits", ()) for measure, most in one["amounts"].items()}
