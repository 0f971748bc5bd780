"""What Slurm's tools call the fields of a job, in one set of names: ``TIME_LIMIT``, ``TimeLimit`` and ``Timelimit``."""

from __future__ import annotations

import re

SAME = {
    "st": "state", "jobstate": "state", "time": "elapsed", "timeused": "elapsed", "runtime": "elapsed",
    "submittime": "submit", "eligibletime": "eligible", "starttime": "start", "endtime": "end",
    "nodes": "nnodes", "numnodes": "nnodes", "cpus": "ncpus", "numcpus": "ncpus",
    "minmemory": "minmemorynode", "name": "jobname", "username": "user", "userid": "user", "groupid": "group",
    "tres": "reqtres", "tresalloc": "alloctres", "tresperjob": "tresperjob", "trespernode": "gres",
    "nodelistreason": "nodelist", "licences": "licenses", "timelimitraw": "timelimitraw", "dependencies": "dependency",
    "arrayjobid": "arrayjobid", "arraytaskid": "arraytaskid", "features": "constraints", "gid": "group",
    "reqnodelist": "reqnodelist", "hetjobid": "hetjobid",
    "excnodelist": "excludednodes", "resvname": "reservation", "oversubscribe": "exclusive",
}  # fmt: skip
"""Another name → ours; all in small letters, with nothing but letters and digits."""

READ = frozenset({
    "jobid", "jobidraw", "submit", "eligible", "start", "end", "elapsed", "elapsedraw", "timelimit", "timelimitraw",
    "timeleft", "state", "nnodes", "allocnodes", "reqnodes", "ncpus", "alloccpus", "reqcpus", "ntasks", "reqmem",
    "minmemorynode", "minmemorycpu", "maxrss", "reqtres", "alloctres", "reqgres", "allocgres", "gres", "tresperjob",
    "user", "licenses", "deadline", "arrayjobid", "arraytaskid", "dependency", "constraints", "reqnodelist",
    "numtasks", "excludednodes", "network", "contiguous", "switches", "exclusive", "nice",
})  # fmt: skip
"""Fields that are read; all others are carried along."""

ASKS = frozenset({
    "dependency", "constraints", "reqnodelist", "excludednodes", "network", "contiguous", "switches", "partition",
    "qos", "reservation", "exclusive", "nice",
})  # fmt: skip
"""Fields with what jobs ask for and nothing honours."""

RENAMED = {"priority": "log_priority", "jobname": "job_name", "nodelist": "node_list", "exitcode": "exit_code"}
"""Fields that are carried along under another name."""

GIVEAWAY = frozenset({
    "state", "st", "elapsed", "elapsedraw", "alloccpus", "alloctres", "ncpus", "reqcpus", "reqtres", "timelimit",
    "timelimitraw", "reqmem", "timeleft", "time", "cputime", "cputimeraw", "maxrss", "partition",
})  # fmt: skip
"""A list with a column ``JobID`` and one of these is Slurm's."""


def plain(name: str) -> str:
    """A name in small letters, with nothing but letters and digits.

    Examples
    --------
    >>> plain("NODELIST(REASON)"), plain("TIME_LIMIT")
    ('nodelistreason', 'timelimit')
    """
    return re.sub(r"[^a-z0-9]", "", name.lower())


def ours(name: str) -> str:
    """Our name for a column or key.

    Examples
    --------
    >>> ours("TIME_LIMIT"), ours("JobID"), ours("ST")
    ('timelimit', 'jobid', 'state')
    """
    return SAME.get(plain(name), plain(name))
