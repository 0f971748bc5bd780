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
from unrack.metric.audit.tables import Spans, Tables, Violation, first_of, micro, span_violation, usage_violation, whole
from unrack.resources.site.installed import Site
from unrack.steps import each_of, levels
from unrack.units import NEVER_US
from unrack.workload.job import job_table
from unrack.workload.site.graph import After, graph_of

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
    places, p, held, asked = t.cluster.places, t["placements"], t.held, t.asked
    if (stray := (own.job >= 0) & ~np.isin(own.key, held.key)).any():
        return first_of(t, own, stray, "claims something for a span that it does not have")
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
    """The first job that runs longer than it may."""
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
    same = (np.diff(s.job, prepend=-1) == 0) & (np.diff(s.attempt, prepend=-1) == 0)
    key = (s.job << 40) + (s.attempt.astype(np.int64) << 20) + s.span
    mb = s.mb + _of_span(key, t.lent, whole(t["loans"]["mb"]))
    for what, held in (
        ("memory", mb), ("nodes", s.nodes), ("tasks", s.tasks),
        ("devices", _of_span(key, t.shared, np.ones(t["shares"].height, np.int64))),
        ("of licences, limits and the like", _of_span(key, t.claimed, whole(t["claims"]["amount"]))),
    ):  # fmt: skip
        if (wrong := same & (np.diff(held, prepend=0) != 0)).any():
            return first_of(t, s, wrong, f"holds other {what} once it is suspended or goes on")
    return None


def _of_span(key: Ints, own: Spans, amount: Ints) -> Ints:
    """int64[spans]: how much the rows of a table say that each span, of these keys, holds."""
    known = np.flatnonzero(own.job >= 0)
    found, at = np.zeros(len(key), np.int64), np.searchsorted(key, own.key[known])
    np.add.at(found, at, amount[known])
    return found


def order_violation(t: Tables) -> Violation | None:
    """The first job that starts before its time to begin, or before what it waits for has come."""
    jobs, s, none = t["jobs"], t.sums, np.zeros(t["jobs"].height, np.int64)
    named = {"dependency", "begin_s", "follows", "eligible_s"} & {*jobs.columns}
    said = jobs.drop("state")  # it is not that of the trace
    graph = graph_of(job_table(submit_us=t.submit, work_us=none, tasks=none, ids=jobs["job"], user=jobs["user"],
                               extra=said)) if named and t.expects and not t.repeated.any() else None  # fmt: skip
    if graph is None:
        return None
    began, ended = none + NEVER_US, none - 1
    np.minimum.at(began, s.job, s.start)
    np.maximum.at(ended, s.job, s.end)
    if t.ran_before.any():
        began -= np.where(t.ran_before, micro(jobs["ran_s"]), 0)
    well = (jobs["state"] == "finished").to_numpy() & graph.ends_well

    def met(job: int, other: int, kind: After, delay_us: int) -> bool:
        if kind in (After.OK, After.NOT_OK) and well[other] != (kind == After.OK):
            return False
        since = began if kind in (After.START, After.TURN) else ended
        return bool(ended[other] < 0 or since[other] + delay_us <= began[job])

    wrong = began < graph.begin_us
    for job, waits in graph.waits.items():
        wrong[job] |= not all(any(met(job, *way) for way in ways) for ways in waits)
    for job in np.flatnonzero(wrong & (began < NEVER_US) & ~t.ran_before)[:1].tolist():
        return Violation(f"{t.name(job)} starts before what it waits for has come", int(began[job]))
    return None


def _until(t: Tables, own: Spans) -> Ints:
    """int64[rows]: until when each was at least given what it has when it started, as far as that is known."""
    jobs, first = t["jobs"], own.attempt == 1
    lasts, limit, more = (pl.col(name) if name in jobs.columns else pl.lit(0.0)
                          for name in (t.expects or "request_s", "limit_s", "extended_s"))  # fmt: skip
    if "limit_s" in jobs.columns:  # of the last start; above what is asked it may be a grace
        first &= (jobs["restarts"] == 0).to_numpy()[own.job]
        lasts = pl.when(limit <= lasts + more).then(limit).otherwise(lasts)
    known = ~t.ran_before & (t.expects != "")
    if "least_tasks" in jobs.columns:
        known &= (jobs["least_tasks"] == jobs["most_tasks"]).to_numpy()
    time = np.where(known, micro(jobs.select(lasts).to_series()), 0)[own.job]
    return own.start + np.where(first & (own.job >= 0) & (own.span == 1), np.maximum(time, 1), 1)


def _began(t: Tables, own: Spans, rows: Ints) -> Ints:
    """Those of some rows with which a job starts; one that ran before the run was there already."""
    rows = rows[(own.job[rows] >= 0) & (own.span[rows] == 1)]
    return rows[~t.ran_before[own.job[rows]] | (own.attempt[rows] > 1)]


def window_violation(t: Tables) -> Violation | None:
    """The first job that starts, or borrows, where nodes are kept for others while it runs, or when it may not run."""
    windows, held, lent, lender = t.cluster.places.windows, t.held, t.lent, whole(t["loans"]["lender"])
    begins = _began(t, held, np.arange(len(held.job))) if windows else np.zeros(0, np.int64)
    if not len(begins):
        return None
    which, node = each_of(*(whole(t["placements"][name])[begins] for name in ("first_node", "nodes")))
    row, sets = begins[which], t.cluster.places.sets(t.asked)
    owner = np.zeros(t["jobs"].height, np.int64) if sets is None else sets.owner[sets.of]
    start, until, owners = held.start[row], _until(t, held)[row], owner[held.job[row]]
    outside, lent_until = owners != 0, _until(t, lent)
    for window in windows:
        mine = np.abs(owners) == window.owner
        late = np.where(owners > 0, (start < window.start_us) | (until > window.end_us), start >= window.end_us)
        outside &= ~mine | late
        inside = (start < window.end_us) & (until > window.start_us) & window.nodes[node] & ~mine
        if inside.any():
            what = "starts" if (start[inside] >= window.start_us).all() else "is given time"
            wrong = np.isin(np.arange(len(held.job)), row[inside])
            return first_of(t, held, wrong, f"{what} on a node kept for others")
        there = (lent.start < window.end_us) & (lent_until > window.start_us) & window.nodes[lender]
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
    amount, until = whole(claims["amount"]), _until(t, own)
    keys = zip(claims["resource"].to_list(), claims["place"].to_list(), strict=True)
    of = np.array([places.number(*key) for key in keys], np.int64)
    for place, windows in places.kept.items():
        mine = np.flatnonzero((of == place) & (own.job >= 0))
        begins = own.start[_began(t, own, mine)]
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
    order_violation, asked_violation, suspension_violation, limit_violation, usage_violation, round_violation,
)  # fmt: skip


def violations(tables: Tables) -> list[Violation]:
    """What is wrong with the tables of a run: of every rule that is broken the first violation; none: nothing.

    It reads the tables and the cluster alone, nothing of what made them. O(n log n) in the rows of the tables, and
    O(nodes) for each row.
    """
    return [found for rule in RULES if (found := rule(tables)) is not None]
