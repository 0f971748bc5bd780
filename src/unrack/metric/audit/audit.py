"""Every rule of the audit, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from unrack.cluster.spec import Cluster
from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.claims import Claimed
from unrack.ledger.lease import Share, attached
from unrack.metric.audit.capacity import device_violation, node_violation
from unrack.metric.audit.tables import Spans, Tables, Violation, micro, span_violation, usage_violation, whole
from unrack.resources.site.installed import Site
from unrack.steps import each_of, levels

Sum = tuple[str, Ints, Ints]
"""What is held, how much of it in each loan or share, and how much each placement must have on each of its nodes."""


def asked_violation(t: Tables) -> Violation | None:
    """The first attempt that began with less than its job asked, or with loans or devices that are not where it runs.

    A lease may shrink later: only first spans must hold all that was asked.
    """
    p, own = t["placements"], t.held
    tasks, known = whole(p["tasks_per_node"]), own.job >= 0
    begins = known & (own.span == 1)
    few = begins & (p["cores_per_node"].to_numpy() < tasks * whole(t["jobs"]["cores_per_task"])[own.job])
    if (few := few | (known & (tasks < 1))).any():
        return first_of(t, own, few, "holds fewer cores than its tasks ask")
    needs = tasks * whole(t["jobs"]["memory_mb_per_task"])[own.job] - whole(p["memory_mb_per_node"])
    borrower, lender, mb = (whole(t["loans"][name]) for name in ("node", "lender", "mb"))
    if (wrong := (lender == borrower) | (mb < 1)).any():
        return first_of(t, t.lent, wrong, "borrows of the node itself, or nothing")
    if (wrong := _out_of_reach(t.cluster, borrower, lender)).any():
        return first_of(t, t.lent, wrong, "borrows of a node that may not lend to it")
    memory: Sum = ("memory", mb, np.where(begins & (not t.provisions), needs, 0))
    found = _beside(t, t.lent, borrower, [memory], ("borrows for a node", "a loan"))
    if found is None and (devices := _devices(t, np.where(known, tasks, 0))):
        found = _beside(t, t.shared, whole(t["shares"]["node"]), devices, ("has a device on a node", "a device"))
    return found


def _out_of_reach(cluster: Cluster, borrower: Ints, lender: Ints) -> Bools:
    """bool[loans]: which are of nodes of another lending group, or of pools of no cluster of the borrower's."""
    if (tiers := cluster.tiers) is None:
        own, other = (cluster.lending_group.take(node, mode="clip") for node in (borrower, lender))
        return np.asarray((other >= 0) & (other != own))
    home = np.repeat(tiers.member[tiers.first[:-1]], np.diff(tiers.first))
    return ~np.isin(borrower * len(cluster) + lender, home * len(cluster) + tiers.member)


def _devices(t: Tables, tasks: Ints) -> list[Sum]:
    """What shares hold of every quantity of devices that any job asks for."""
    devices, shares = t.cluster.devices, t["shares"]
    kind, sums = shares["kind"].to_numpy(), list[Sum]()
    for k, name in enumerate(devices.kinds):
        for q, quantity in enumerate(devices.quantities[k]):
            what = f"{name}.{quantity}"
            if what in t["jobs"].columns:
                amount = whole(shares["amounts"].list.get(q, null_on_oob=True).fill_null(0))
                sums.append((what, np.where(kind == name, amount, 0), tasks * whole(t["jobs"][what])[t.held.job]))
    return sums if any((asked > 0).any() for *_, asked in sums) else []


def first_of(t: Tables, own: Spans, wrong: Bools, what: str) -> Violation:
    """What is wrong with the first of some rows."""
    rows = np.flatnonzero(wrong)
    i = int(rows[np.argmin(own.start[rows])])
    return Violation(f"{t.name(own.job[i])}, attempt {own.attempt[i]}, {what}", int(own.start[i]))


def _beside(t: Tables, own: Spans, node: Ints, sums: Sequence[Sum], words: tuple[str, str]) -> Violation | None:
    """Loans, or shares, are for tasks that are on ``node``, for just as long; and tasks have enough of them."""
    held, needed = t.held, np.zeros(len(t.held.job), np.bool_)
    for *_, asked in sums:
        needed |= asked > 0
    if len(own.job):
        needed |= np.isin(held.key, own.key)
    row, of = _found(t, np.flatnonzero(needed), own, node)
    if (stray := (of < 0) & (own.job >= 0)).any():
        return first_of(t, own, stray, f"{words[0]} on which it has no task")
    there = np.flatnonzero(of >= 0)
    different = np.zeros(len(of), np.bool_)
    for mine, its in ((own.start, held.start), (own.end, held.end)):
        different[there] |= mine[there] != its[row[of[there]]]
    if different.any():
        return first_of(t, own, different, f"has {words[1]} that lasts for another time than its span")
    for what, amount, asked in sums:
        has = np.zeros(len(row), np.int64)
        np.add.at(has, of[there], amount[there])
        if (lacking := has < asked[row]).any():
            short = np.zeros(len(held.job), np.bool_)
            short[row[lacking]] = True
            return first_of(t, held, short, f"holds less {what} than its tasks ask")
    return None


def _found(t: Tables, rows: Ints, own: Spans, node: Ints) -> tuple[Ints, Ints]:
    """Where loans or shares belong.

    ``row``: int64[k], the placement of every node of these ``rows``; ``of``: int64[loans], which of these nodes each
    loan or share is for; -1: none.
    """
    which, at = each_of(*(whole(t["placements"][name])[rows] for name in ("first_node", "nodes")))
    row = rows[which]
    if len(row) == 0:
        return row, np.full(len(node), -1)
    _, numbers = np.unique(np.concatenate([t.held.key[row], own.key]), return_inverse=True)
    place, wanted = numbers[: len(row)] * len(t.cluster) + at, numbers[len(row) :] * len(t.cluster) + node
    order = np.argsort(place, kind="stable")
    near = order[np.minimum(np.searchsorted(place[order], wanted), len(order) - 1)]
    return row, np.where(place[near] == wanted, near, -1)


def claim_violation(t: Tables) -> Violation | None:
    """The first claim that cannot be, or that is missing."""
    places = t.cluster.places
    if not places.parts:
        return None
    c, own = t["claims"], t.claimed
    keys = list(zip(c["resource"].to_list(), c["place"].to_list(), strict=True))
    number = {key: places.number(*key) for key in dict.fromkeys(keys)}
    at = np.array([number[key] for key in keys], np.int64)
    amount = whole(c["amount"])
    if (at < 0).any():
        return Violation("a claim is on a place that does not exist", int(own.start[np.flatnonzero(at < 0)[0]]))
    return _more_than_installed(t, own, at, amount) or _not_as_asked(t, own, at, amount)


def _more_than_installed(t: Tables, own: Spans, at: Ints, amount: Ints) -> Violation | None:
    lasts = own.end > own.start
    place, when, level = levels(at[lasts], own.start[lasts], own.end[lasts], amount[lasts])
    over = np.flatnonzero(level > t.cluster.places.total[place])
    if not over.size:
        return None
    resource, what = t.cluster.places.at(int(place[over[0]]))
    held = f"{level[over[0]]} of {resource} {what.name} are held, and {what.amount} installed"
    return Violation(held, int(when[over[0]]))


def _not_as_asked(t: Tables, own: Spans, at: Ints, amount: Ints) -> Violation | None:
    """Every span claims what its job asks on the nodes of its placements, for just as long."""
    places, p, held = t.cluster.places, t["placements"], t.held
    count = t["jobs"].height
    columns = {key: whole(t["jobs"][".".join(key)]) for key in places.quantities if ".".join(key) in t["jobs"].columns}
    asked = places.asked(columns, count)
    stray = np.flatnonzero((own.job >= 0) & ~np.isin(own.key, held.key))
    if len(stray):
        i = int(stray[0])
        return Violation(f"{t.name(own.job[i])} claims something for a span that it does not have", int(own.start[i]))
    asks = np.asarray(asked.any(axis=0))
    rows = np.flatnonzero((held.job >= 0) & (asks[held.job] | np.isin(held.key, own.key)))
    rows = rows[np.argsort(held.key[rows], kind="stable")]
    if not len(rows):
        return None
    keys, begin = np.unique(held.key[rows], return_index=True)
    first, nodes, tasks = (whole(p[name])[rows] for name in ("first_node", "nodes", "tasks_per_node"))
    (run, where), sets = each_of(first, nodes), places.sets(asked)
    inside = np.ones(len(run), np.bool_) if sets is None else sets.masks[sets.of[held.job[rows]][run], where]
    astray = np.add.reduceat(np.bincount(run[~inside], minlength=len(rows)), begin)
    order = np.lexsort((amount, at, own.key))
    order = order[own.job[order] >= 0]
    claims, of = np.stack([at[order], amount[order]], axis=1), np.searchsorted(keys, own.key[order])
    span = rows[begin]
    as_long = (own.start[order] == held.start[span[of]]) & (own.end[order] == held.end[span[of]])
    job, last, gang = held.job[span], np.append(begin[1:], len(rows)), np.add.reduceat(nodes * tasks, begin)
    shares, known = _shares(t), Claimed(places, asked, t.cluster.devices.home)
    parts = begin, last, *np.searchsorted(of, [np.arange(len(keys)), np.arange(1, len(keys) + 1)])
    for key, of_job, together, out, row, end, least, most in zip(
        *(column.tolist() for column in (keys, job, gang, astray, *parts)), strict=True
    ):
        mine, fixed = claims[least:most], known.anywhere(of_job, together)
        if out or fixed is None or fixed.tobytes() != mine.tobytes():
            on, which = each_of(first[row:end], nodes[row:end])
            devices = attached(shares.get(key, ()), t.cluster.devices.home)
            if not places.agree(asked[:, of_job], which, tasks[row:end][on], mine, devices):
                what = f"{t.name(of_job)} claims something else than it asks where it runs"
                return Violation(what, int(held.start[rows[row]]))
        if not as_long[least:most].all():
            what = f"{t.name(of_job)} has a claim that lasts for another time than its span"
            return Violation(what, int(held.start[rows[row]]))
    return None


def _shares(t: Tables) -> dict[int, list[Share]]:
    """The devices of every span, by its key; those that do not exist are another rule's to find."""
    found: dict[int, list[Share]] = {}
    rows = zip(t.shared.key.tolist(), t["shares"]["node"].to_list(), t["shares"]["devices"].to_list(), strict=True)
    for key, node, devices in rows:
        known = tuple(device for device in devices if 0 <= device < len(t.cluster.devices))
        found.setdefault(key, []).append(Share(node, known, ()))
    return found


def limit_violation(t: Tables) -> Violation | None:
    """The first job that runs longer than it may, or in more time than it asks on nodes kept for others meanwhile."""
    jobs, places = t["jobs"], t.cluster.places
    if "extensions" not in jobs.columns or len(t.cluster.devices):  # attaching them takes time as well
        return None
    site = places.installed.get("site")
    said = [] if not isinstance(site, Site) else [site.file.over_time, *(one.over_time for one in site.file.partitions)]
    limit, request, ran = (micro(jobs[name]) for name in ("limit_s", "request_s", "run_s"))
    grace = max((time for time in said if time is not None), default=0)
    bounded = jobs["state"].to_numpy() == "finished"
    if "het" in jobs.columns:  # components run for as long as the longest of them asks
        bounded &= (jobs["het"].cast(pl.String).fill_null("") == "").to_numpy()
    if any(time is None for time in said) and not all(time is None for time in said):
        bounded &= (jobs["cut"] | (jobs["extensions"] > 0)).to_numpy()  # others run where no job is stopped
    most = np.where(limit > request, limit, np.where(limit >= 0, limit, request) + grace) + places.delay_us
    if (late := np.flatnonzero(bounded & (ran > most + 1))).size:
        job = int(late[0])
        return Violation(f"{t.name(job)} runs for {ran[job] / 1e6:g} s, and its limit is {most[job] / 1e6:g} s")
    p, held = t["placements"], t.held
    longer = limit > request if places.windows else np.zeros(jobs.height, np.bool_)
    if "suspensions" in jobs.columns:
        longer &= (jobs["suspensions"] == 0).to_numpy()  # others were to end earlier
    rows = np.flatnonzero((held.job >= 0) & longer[held.job])
    which, node = each_of(*(whole(p[name])[rows] for name in ("first_node", "nodes")))
    row = rows[which]
    first = held.start[row] + request[held.job[row]] + grace
    columns = {key: whole(jobs[".".join(key)]) for key in places.quantities if ".".join(key) in jobs.columns}
    sets = places.sets(places.asked(columns, jobs.height))
    owner = np.zeros(jobs.height, np.int64) if sets is None else np.abs(sets.owner[sets.of])
    for window in places.windows if len(row) else ():
        into = (first <= window.start_us) & (window.start_us < held.end[row]) & window.nodes[node]
        if (wrong := np.flatnonzero(into & (owner[held.job[row]] != window.owner))).size:
            return Violation(
                f"{t.name(held.job[row[wrong[0]]])} is given time on a node kept for others", window.start_us
            )
    return None


def suspension_violation(t: Tables) -> Violation | None:
    """The first job that holds other cores than it may while it is suspended or runs, or changes what else it holds."""
    jobs = t["jobs"]
    if "suspensions" not in jobs.columns or not len(t.sums.job):
        return None
    s, asked = t.sums, whole(jobs["tasks"]) * whole(jobs["cores_per_task"])
    stands = (s.cores == 0) & (asked[s.job] > 0)
    stood = np.bincount(s.job, np.where(stands, s.end - s.start, 0), jobs.height)
    said = jobs["suspended_s"].to_numpy() * 1e6
    if (wrong := np.flatnonzero((np.abs(stood - said) > 1 + 1e-9 * said) & ~t.repeated)).size:
        job = int(wrong[0])
        words = f"{t.name(job)} is suspended for {said[job] / 1e6:g} s, and holds no cores for {stood[job] / 1e6:g} s"
        return Violation(words)
    same = (np.diff(s.job) == 0) & (np.diff(s.attempt) == 0)
    key = (s.job << 40) + (s.attempt.astype(np.int64) << 20) + s.span
    mb = s.mb + _of_span(key, t.lent, whole(t["loans"]["mb"]))
    amounts = whole(t["claims"]["amount"]) if "claims" in t else np.zeros(0, np.int64)
    for what, held in (
        ("memory", mb), ("nodes", s.nodes), ("tasks", s.tasks),
        ("devices", _of_span(key, t.shared, np.ones(t["shares"].height, np.int64))),
        ("of licences, limits and the like", _of_span(key, t.claimed, amounts)),
    ):  # fmt: skip
        if (wrong := np.flatnonzero(same & (np.diff(held) != 0))).size:
            i = int(wrong[0]) + 1
            return Violation(f"{t.name(s.job[i])} holds other {what} once it is suspended or goes on", int(s.start[i]))
    return None


def _of_span(key: Ints, own: Spans, amount: Ints) -> Ints:
    """int64[spans]: how much the rows of a table say that each span, of these keys, holds."""
    known = np.flatnonzero(own.job >= 0)
    found, at = np.zeros(len(key), np.int64), np.searchsorted(key, own.key[known])
    np.add.at(found, at, amount[known])
    return found


def window_violation(t: Tables) -> Violation | None:
    """The first job that starts where and when nodes are kept for others, or when none of its windows is open.

    Or that borrows memory of such a node then.
    """
    places, p, held, lent, lender = t.cluster.places, t["placements"], t.held, t.lent, whole(t["loans"]["lender"])
    begins = np.flatnonzero((held.job >= 0) & (held.span == 1)) if places.windows else np.zeros(0, np.int64)
    if not len(begins):
        return None
    columns = {key: whole(t["jobs"][".".join(key)]) for key in places.quantities if ".".join(key) in t["jobs"].columns}
    sets = places.sets(places.asked(columns, t["jobs"].height))
    owner = np.zeros(t["jobs"].height, np.int64) if sets is None else sets.owner[sets.of]
    which, node = each_of(*(whole(p[name])[begins] for name in ("first_node", "nodes")))
    row = begins[which]
    start, owners = held.start[row], owner[held.job[row]]
    outside = owners != 0
    for window in places.windows:
        mine = np.abs(owners) == window.owner
        outside &= ~mine | ((start < window.start_us) & (owners > 0)) | (start >= window.end_us)
        inside = (start >= window.start_us) & (start < window.end_us) & window.nodes[node] & ~mine
        if inside.any():
            return first_of(t, held, np.isin(np.arange(len(held.job)), row[inside]), "starts on a node kept for others")
        there = (lent.start >= window.start_us) & (lent.start < window.end_us) & window.nodes[lender]
        there &= (lent.job >= 0) & (lent.span == 1) & (np.abs(owner[lent.job]) != window.owner)
        if there.any():
            return first_of(t, lent, there, "borrows of a node kept for others")
    if outside.any():
        return first_of(t, held, np.isin(np.arange(len(held.job)), row[outside]), "starts when it may not run")
    return None


def kept_violation(t: Tables) -> Violation | None:
    """The first moment at which a job takes what is kept of a place for others, or will have it when it is."""
    places, own, claims = t.cluster.places, t.claimed, t["claims"]
    if not places.kept or not len(own.job):
        return None
    amount, asked, began = whole(claims["amount"]), t["jobs"]["request_s"], (own.span == 1) & (own.attempt == 1)
    if "limit_s" in t["jobs"].columns:  # of the last start
        asked = pl.select(pl.min_horizontal(t["jobs"]["limit_s"], asked)).to_series()
        began &= ~np.isin(own.job, own.job[own.attempt > 1])
    request = micro(asked)
    keys = zip(claims["resource"].to_list(), claims["place"].to_list(), strict=True)
    of = np.array([places.number(*key) for key in keys], np.int64)
    # when a job that began without having run before is to have ended, as it asks
    until = np.where(began, own.start + request[own.job], 0)
    for place, windows in places.kept.items():
        mine = np.flatnonzero((of == place) & (own.job >= 0))
        begins = own.start[mine[own.span[mine] == 1]]
        for window in windows:
            most = int(places.total[place]) - window.amount
            there = begins[(begins >= window.start_us) & (begins < window.end_us)]
            late = mine[until[mine] > window.start_us]
            early = own.start[late][own.start[late] < window.start_us]
            over = [
                *_over(most, own.start[mine], own.end[mine], amount[mine], there),
                *_over(most, own.start[late], own.end[late], amount[late], early),
            ]
            if over:
                (at, held), (_, what) = min(over), places.at(place)
                said = f"{held} of {what.name} are taken, where {most} are left beside what is kept for others"
                return Violation(said, at)
    return None


def _over(most: int, start: Ints, end: Ints, amount: Ints, begins: Ints) -> list[tuple[int, int]]:
    """The moments, of some, at which more is held than a window leaves, and how much."""
    held = np.zeros(len(begins), np.int64)
    for times, sign in ((start, 1), (end, -1)):
        order = np.argsort(times, kind="stable")
        sums = np.concatenate([[0], np.cumsum(amount[order])])
        held += sign * sums[np.searchsorted(times[order], begins, "right")]
    over = np.flatnonzero(held > most)
    return list(zip(begins[over].tolist(), held[over].tolist(), strict=True))


def round_violation(t: Tables) -> Violation | None:
    """The first round that cannot be."""
    if "rounds" not in t:
        return None
    r = t["rounds"]
    at = micro(r["time_s"])
    jobs, tried, placed, left = (whole(r[name]) for name in ("jobs", "tried", "placed", "left"))
    wrong = np.flatnonzero((placed + left != jobs) | (placed > tried) | (tried > jobs) | (placed < 0))
    if wrong.size:
        i = int(wrong[0])
        words = f"a round of {jobs[i]} jobs tried {tried[i]}, placed {placed[i]} and left {left[i]}"
        return Violation(words, int(at[i]))
    if (np.diff(at) < 0).any():
        return Violation("the rounds are not in order of time", int(at[np.flatnonzero(np.diff(at) < 0)[0]]))
    begins = t.sums.start[t.sums.span == 1]
    times, of = np.unique(np.concatenate([at, begins]), return_inverse=True)
    said = np.bincount(of[: len(at)], placed, len(times))
    done = np.bincount(of[len(at) :], minlength=len(times))
    other = np.flatnonzero(said != done)
    if other.size and not t.repeated.any():
        i = int(other[0])
        return Violation(f"{done[i]} jobs start, and the rounds placed {said[i]:.0f}", int(times[i]))
    return None


RULES: tuple[Callable[[Tables], Violation | None], ...] = (
    span_violation, node_violation, device_violation, claim_violation, window_violation, kept_violation,
    asked_violation, suspension_violation, limit_violation, usage_violation, round_violation,
)  # fmt: skip


def violations(tables: Tables) -> list[Violation]:
    """What is wrong with the tables of a run: of every rule that is broken the first violation; none: nothing.

    It reads the tables and the cluster alone, nothing of what made them. O(n log n) in the rows of the tables, and
    O(nodes) for each row.
    """
    return [found for rule in RULES if (found := rule(tables)) is not None]
