"""The accounts, qualities of service and limits that a running Slurm enforces, by its accounting."""

from __future__ import annotations

from collections.abc import Mapping

from unrack.cluster.formats.accounting import listed
from unrack.cluster.formats.site import SaidSite, lose
from unrack.live.slurm.commands.run import clean_environment, find_command, printed, run_all
from unrack.slurm_text.scheduler import Scheduler


def read_accounting(
    scheduler: Scheduler, timeout_s: float = 10.0, environment: Mapping[str, str] | None = None
) -> SaidSite | None:
    """Ask Slurm for its accounts and their limits; ``None``: it does not enforce limits.

    Raises
    ------
    UnreachableError
        Accounting does not answer, or not in time.
    InputError
        There is no such command; or, as :class:`unrack.errors.ClusterError`, what it prints cannot be understood.
    """
    if not scheduler.limits:
        return None
    kept = clean_environment(environment)
    sacctmgr, cluster = find_command("sacctmgr", kept), [f"cluster={scheduler.cluster}"] if scheduler.cluster else []
    commands = [[sacctmgr, "-P", "show", "assoc", "tree", *cluster], [sacctmgr, "-P", "show", "qos"]]
    texts = [printed(done, "sacctmgr") for done in run_all(commands, kept, timeout_s)]
    return accounting_of(*texts)


def accounting_of(associations: str, qos: str) -> SaidSite:
    """What ``sacctmgr -P show assoc tree`` and ``sacctmgr -P show qos`` print.

    Raises
    ------
    ClusterError
        It cannot be understood.
    """
    found = listed(associations, "sacctmgr show assoc", "slurm").site or SaidSite()
    found = found.then(listed(qos, "sacctmgr show qos", "slurm").site or SaidSite())
    bounded = sorted(name for name, keys in found.qos.items() if keys.get("limits"))
    users = [one for keys in found.accounts.values() for one in keys.get("users", ()) if isinstance(one, Mapping)]
    if any(one.get("limits") for one in (*found.accounts.values(), *users)):
        for name in bounded:
            lose(found.lost, "Limits of a QOS are in place of those of accounts in Slurm, while here both hold", name)
    return found
