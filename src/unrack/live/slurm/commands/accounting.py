"""The accounts, qualities of service and limits that a running Slurm enforces, by its accounting."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from unrack.cluster.formats.accounting import listed, priority_of
from unrack.cluster.formats.site import Lost, SaidSite
from unrack.live.driver.used import Used
from unrack.live.slurm.commands.run import clean_environment, find_command, printed, run_all
from unrack.slurm_text.scheduler import Scheduler


def read_accounting(
    scheduler: Scheduler, timeout_s: float = 10.0, environment: Mapping[str, str] | None = None
) -> SaidSite | None:
    """Ask Slurm for its accounts, its priorities, and limits if it enforces them; ``None``: it does neither.

    Raises
    ------
    UnreachableError
        Accounting does not answer, or not in time.
    InputError
        There is no such command; or, as :class:`unrack.errors.ClusterError`, what it prints cannot be understood.
    """
    lost = Lost()
    priority = priority_of(scheduler.priorities, "scontrol show config", lost)
    rules = SaidSite(rules={"priority": priority} if priority else {}, lost=lost)
    if not scheduler.accounts or not (scheduler.limits or priority):
        return rules if priority else None
    kept = clean_environment(environment)
    sacctmgr, cluster = find_command("sacctmgr", kept), [f"cluster={scheduler.cluster}"] if scheduler.cluster else []
    commands = [[sacctmgr, "-P", "show", "assoc", "tree", *cluster], [sacctmgr, "-P", "show", "qos"]]
    texts = [printed(done, "sacctmgr") for done in run_all(commands, kept, timeout_s)]
    found = accounting_of(*texts)
    return (found if scheduler.limits else replace(found.without_limits(), lost={})).then(rules)


def read_used(
    scheduler: Scheduler, timeout_s: float = 10.0, environment: Mapping[str, str] | None = None
) -> Used | None:
    """Ask Slurm what accounts and users have used; ``None``: it keeps no accounts, or that is not used.

    Raises
    ------
    UnreachableError
        As of :func:`read_accounting`; and :class:`unrack.errors.InputError`.
    """
    if not scheduler.accounts or not scheduler.priorities:
        return None
    kept = clean_environment(environment)
    words = ["--all", "--parsable2", "--noheader", "--format=Account,User,RawUsage"]
    at_s = time.time()
    done = run_all([[find_command("sshare", kept), *words]], kept, timeout_s)[0]
    return used_by(printed(done, "sshare"), at_s)


def accounting_of(associations: str, qos: str) -> SaidSite:
    """What ``sacctmgr -P show assoc tree`` and ``sacctmgr -P show qos`` print.

    Raises
    ------
    ClusterError
        It cannot be understood.
    """
    found = listed(associations, "sacctmgr show assoc", "slurm").site or SaidSite()
    return found.then(listed(qos, "sacctmgr show qos", "slurm").site or SaidSite())


def used_by(printed: str, at_s: float) -> Used:
    r"""What ``sshare --all --parsable2 --noheader --format=Account,User,RawUsage`` prints; odd lines are left out.

    An account used by itself what none of its users and accounts below used: that of users that are gone.

    Examples
    --------
    >>> used_by("root||100\n phys||90\n  phys|ann|60\n  phys|bob|10\n chem||10\n  chem|cy|10", 5.0).amounts
    (('phys', 'ann', 60.0), ('phys', 'bob', 10.0), ('chem', 'cy', 10.0), ('phys', '', 20.0))
    """
    users: list[tuple[str, str, float]] = []
    left, above = dict[str, float](), list[tuple[int, str]]()
    for line in printed.split("\n"):
        fields = line.split("|")
        if len(fields) != 3 or not (fields[2].isascii() and fields[2].isdigit() and len(fields[2]) < 18):
            continue
        account, user, amount = fields[0].strip().lower(), fields[1].strip(), float(fields[2])
        depth = len(fields[0]) - len(fields[0].lstrip())
        while above and above[-1][0] >= depth:
            above.pop()
        if user:
            users.append((account, user, amount))
            if account in left:
                left[account] -= amount
            continue
        if above:
            left[above[-1][1]] -= amount
        above.append((depth, account))
        left[account] = amount
    left.pop("root", None)
    return Used(at_s, (*users, *((account, "", amount) for account, amount in left.items() if amount > 0)))
