"""Nobody runs beyond his limit where jobs are stopped there, and nobody who was given more time takes what is kept."""

from __future__ import annotations

import numpy as np
import polars as pl

from unrack.metric.audit.tables import Tables, Violation, micro, whole
from unrack.resources.site.installed import Site
from unrack.steps import each_of


def limit_violation(t: Tables) -> Violation | None:
    """The first job that runs longer than it may, or in more time than it asks on nodes kept for others meanwhile."""
    jobs, places = t["jobs"], t.cluster.places
    if "extensions" not in jobs.columns or len(t.cluster.devices):  # whose attaching takes time as well
        return None
    site = places.installed.get("site")
    said = [] if not isinstance(site, Site) else [site.file.over_time, *(one.over_time for one in site.file.partitions)]
    limit, request, ran = (micro(jobs[name]) for name in ("limit_s", "request_s", "run_s"))
    grace = max((time for time in said if time is not None), default=0)
    bounded = jobs["state"].to_numpy() == "finished"
    if "het" in jobs.columns:  # components run for as long as the longest of them asks
        bounded &= (jobs["het"].cast(pl.String).fill_null("") == "").to_numpy()
    if any(time is None for time in said) and not all(time is None for time in said):
        bounded &= (jobs["cut"] | (jobs["extensions"] > 0)).to_numpy()  # others run where nobody is stopped
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
