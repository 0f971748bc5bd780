"""What is to be done next: from what claims want, what the fabric has and what is under way, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple

from unrack.live.fabric.contract import Attachment
from unrack.live.kubernetes.composer.wanted import AttachProblem, Sight, WantedDevice


class Situation(NamedTuple):
    """All that there is at one moment; operations are named by their ids."""

    wanted: Mapping[str, WantedDevice]
    attached: Mapping[str, Attachment]  # of ours, as the fabric lists them: wholly or in part
    whole: Collection[str]  # those of them that are known to be attached wholly
    busy: Mapping[str, str]  # what is being attached or detached → its switch
    resting: Collection[str]  # what failed, and is not to be tried again yet
    overdue: Mapping[str, AttachProblem]  # what has not been attached for too long, and why not
    switch_of: Mapping[str, str]  # of devices, by the names of the fabric


class Steps(NamedTuple):
    """What to begin now, in this order; what claims are to be told (``None``: the device is there); what is held up.

    Held up is what waits for a device from which something is still to be detached.
    """

    detach: tuple[str, ...]
    attach: tuple[WantedDevice, ...]
    tell: tuple[tuple[WantedDevice, AttachProblem | None], ...]
    held_up: tuple[str, ...]


def next_steps(now: Situation, at_once: int) -> Steps:
    """What to begin, and what to tell.

    * What no claim wants is detached, and what a claim was told that has failed.
    * A device is attached once nothing of ours is to be detached from it, as the fabric would refuse it before.
    * A claim is told once an operation has come to its end, be it that nothing has worked for too long. What was
      attached is never told as failed: pods may use it.
    * Of a switch no more than ``at_once`` operations are under way.
    """
    under_way, left = Counter(now.busy.values()), set[str]()
    detach = list[str]()
    for operation, there in sorted(now.attached.items()):
        wanted = now.wanted.get(operation)
        if wanted is not None and wanted.sight != Sight.FAILED:
            continue
        left.update(there.devices)
        switch = now.switch_of.get(there.devices[0], there.devices[0])
        if operation not in now.busy and operation not in now.resting and under_way[switch] < at_once:
            under_way[switch] += 1
            detach.append(operation)
    attach, tell, held_up = list[WantedDevice](), list[tuple[WantedDevice, AttachProblem | None]](), list[str]()
    for one in sorted(now.wanted.values(), key=lambda one: (one.rank, one.operation)):
        was_there = one.sight in (Sight.ATTACHED, Sight.LOST)
        if one.operation in now.busy or one.sight == Sight.FAILED:
            continue
        if one.operation in now.whole:
            if one.sight != Sight.ATTACHED:
                tell.append((one, None))
            continue
        problem = now.overdue.get(one.operation)
        if was_there and one.operation in now.attached and one.attachment is None:
            continue  # its device is published no more, and goes on being used
        if not was_there and (one.problem or problem):
            tell.append((one, one.problem or problem))
            continue
        if one.sight == Sight.ATTACHED and problem:
            tell.append((one, problem))
        if one.attachment is None:
            continue
        if left.intersection(one.attachment.devices):
            held_up.append(one.operation)
        elif one.operation not in now.resting and under_way[one.switch] < at_once:
            under_way[one.switch] += 1
            attach.append(one)
    return Steps(tuple(detach), tuple(attach), tuple(tell), tuple(held_up))
