"""How a Slurm schedules, as ``slurm.conf`` or ``scontrol show config`` says it, and the policy that is most like it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_LINE = re.compile(r"^([A-Za-z]\w*)\s*=\s(.*)$", re.MULTILINE)
_PRIORITIES = ("priority", "fairshare")
_NUMBER = re.compile(r"[0-9]{1,6}")


@dataclass(frozen=True)
class Scheduler:
    """What is configured."""

    kind: str = "backfill"  # ``"backfill"``, ``"builtin"``, or what else there is; ``""``: not known
    interval_s: int = 30  # time between two backfills
    # backfill_depth, queue_depth: how many jobs a backfill and the main loop look at
    backfill_depth: int = 500
    queue_depth: int = 100
    memory: bool = True  # whether memory is counted
    whole_nodes: bool = False  # whether jobs get whole nodes
    whole_cores: bool = True  # whether jobs get cores with all of their threads
    limits: bool = False  # whether limits of accounts and QOS are enforced
    accounts: bool = False  # whether it keeps accounts
    # what it says of priorities, keys in small letters, where it goes by more than the order of arrival
    priorities: Mapping[str, str] = field(default_factory=dict)
    cluster: str = ""  # its name in accounting; ``""``: not said
    main: bool = True  # whether there is a main loop beside the backfill
    others: tuple[str, ...] = ()  # what else SchedulerParameters says

    @property
    def policy(self) -> dict[str, Any]:
        """The policy that is most like it, as a study has it; jobs go by the priorities that Slurm gave them."""
        name, parameters = self._like("priority")
        label = "present (builtin)" if self.kind == "builtin" else "present (backfill)"
        return {"name": name, **parameters, "label": label}

    def spec(self, order: str) -> str:
        """The same as the command line has it, for jobs in another order.

        Examples
        --------
        >>> Scheduler(interval_s=60).spec("multifactor")
        'slurm(order=multifactor, interval=60 s, depth=500, queue=500, reserve=slurm, place=tightest-run)'
        """
        name, parameters = self._like(order)
        return f"{name}({', '.join(f'{key}={value}' for key, value in parameters.items())})"

    def _like(self, order: str) -> tuple[str, dict[str, Any]]:
        nodes = {"nodes": "whole"} if self.whole_nodes else {"place": "tightest-run"}
        if self.kind == "builtin":
            return "list", {"order": order, **nodes}
        queue = max(self.queue_depth, self.backfill_depth)
        interval = f"{self.interval_s} s"
        depths = {"depth": self.backfill_depth, "queue": queue}
        main = {} if self.main else {"main": "interval"}
        return "slurm", {"order": order, "interval": interval, **main, **depths, "reserve": "slurm", **nodes}

    @property
    def notes(self) -> tuple[str, ...]:
        """What the policy leaves out, a sentence each."""
        known = self.kind in ("backfill", "builtin")
        other = () if known else (f"SchedulerType is {self.kind or 'not known'}: taken for sched/backfill.",)
        return (*other, *self.left_out, "Priorities are those of now: they do not age.")

    @property
    def left_out(self) -> tuple[str, ...]:
        """What no policy here is told, a sentence."""
        return (f"Of SchedulerParameters is not taken over: {', '.join(self.others)}.",) if self.others else ()


def scheduler_of(text: str) -> Scheduler:
    r"""What a configuration says, as ``scontrol show config`` prints it; what it does not say is as Slurm's defaults.

    Examples
    --------
    >>> text = "SchedulerType           = sched/backfill\nSchedulerParameters     = bf_interval=5,bf_max_job_test=50"
    >>> found = scheduler_of(text)
    >>> found.kind, found.interval_s, found.backfill_depth, found.memory
    ('backfill', 5, 50, False)
    """
    return scheduler_from({match[1].lower(): match[2].strip() for match in _LINE.finditer(text)})


def enforces_limits(text: str) -> bool:
    """Whether limits of accounts and QOS hold by such an ``AccountingStorageEnforce``."""
    return not {"limits", "safe", "all"}.isdisjoint(one.strip().lower() for one in text.split(","))


def scheduler_from(said: Mapping[str, str]) -> Scheduler:
    """As :func:`scheduler_of`, of what is said by keys in small letters."""
    parameters = dict(
        one.strip().lower().partition("=")[::2] for one in said.get("schedulerparameters", "").split(",") if one
    )

    def number(key: str, default: int) -> int:
        value = parameters.get(key, "")
        return max(int(value), 1) if _NUMBER.fullmatch(value) else default

    taken = ("bf_interval", "bf_max_job_test", "default_queue_depth", "sched_interval", "preempt_youngest_first")
    accounts = "slurmdbd" in said.get("accountingstoragetype", "")
    multifactor = "multifactor" in said.get("prioritytype", "")
    kind = said.get("schedulertype", "").rpartition("/")[2].lower()
    return Scheduler(
        kind=re.sub(r"[^a-z0-9_-]", "", kind)[:40],
        interval_s=number("bf_interval", 30),
        backfill_depth=number("bf_max_job_test", 500),
        queue_depth=number("default_queue_depth", 100),
        others=tuple(
            f"{key}={value}" if value else key
            for key, value in parameters.items()
            if key not in taken and (key, value) != ("(null)", "")
        ),
        main=parameters.get("sched_interval") != "-1",
        memory="memory" in said.get("selecttypeparameters", "").lower(),
        whole_nodes=said.get("selecttype", "").endswith("linear"),
        whole_cores="cr_cpu" not in said.get("selecttypeparameters", "").lower(),
        limits=accounts and enforces_limits(said.get("accountingstorageenforce", "")),
        accounts=accounts,
        priorities={key: value for key, value in said.items() if multifactor and key.startswith(_PRIORITIES)},
        cluster=said.get("clustername", ""),
    )
