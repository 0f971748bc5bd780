"""What ``slurm.conf`` says of which job is first and which is stopped: ``priority``, ``preempt`` and ``over_time``."""

from __future__ import annotations

from collections.abc import Mapping

from unrack.cluster.formats.site import Keys, Lost, lose, parsed, says_nothing, whole
from unrack.slurm_text.times import ENDLESS, UNKNOWN, span_s

_WEIGHTS = {
    "PriorityWeightAge": "age", "PriorityWeightFairshare": "fair_share", "PriorityWeightJobSize": "job_size",
    "PriorityWeightPartition": "partition", "PriorityWeightQOS": "qos", "PriorityWeightAssoc": "association",
}  # fmt: skip
_TIMES = {"PriorityDecayHalfLife": "half_life", "PriorityMaxAge": "max_age", "PriorityCalcPeriod": "calc_period"}
MODES = {"requeue": "requeue", "cancel": "cancel", "suspend": "suspend", "off": "off"}
"""What becomes of jobs that are preempted, as Slurm calls it."""


def priority_of(settings: Mapping[str, str], where: str, lost: Lost) -> Keys:
    """The keys of ``site.priority``; none: no weight is set, so that the first that comes is first."""
    found: Keys = {}
    for key, name in _WEIGHTS.items():
        if (text := settings.get(key.lower(), "")) and (weight := whole(text, f"{where}, {key}")):
            found[name] = weight
    if not found:
        return {}
    for key, name in _TIMES.items():
        if text := settings.get(key.lower(), ""):
            found[name] = _seconds(text, f"{where}, {key}")
    if settings.get("priorityfavorsmall", "").upper() in ("YES", "1", "TRUE"):
        found["favor_small"] = True
    flags = {flag.strip().upper() for flag in settings.get("priorityflags", "").split(",") if flag.strip()}
    if "NO_FAIR_TREE" in flags:
        found["fair_share_by"] = "classic"
    if "SMALL_RELATIVE_TO_TIME" in flags:
        found["small_relative_to_time"] = True
    for flag in sorted(flags - {"NO_FAIR_TREE", "SMALL_RELATIVE_TO_TIME"}):
        lose(lost, "Flags of priorities are not taken over", flag)
    for key in ("PriorityUsageResetPeriod", "PriorityWeightTRES", "PrioritySiteFactorPlugin"):
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
