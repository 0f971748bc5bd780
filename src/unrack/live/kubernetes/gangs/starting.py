"""All pods of a gang are bound, or none: what is done so that it stays that way, whatever breaks between two bindings.

1. No pod is bound before it is seen that all of them have room on nodes that are in use.
2. As soon as one is bound, the rest is bound to the nodes that were decided, which are written down: again and again,
   through servers that do not answer and drivers that are killed.
3. Where that cannot be done any more (a pod or a node is gone, a pod was bound elsewhere, the room was taken), the pods
   that were bound are deleted, and whatever waits of the gang then begins anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence

from unrack.live.kubernetes.adapter.asks import OVER
from unrack.live.kubernetes.adapter.picture import Picture
from unrack.live.kubernetes.client import answers
from unrack.live.kubernetes.client.answers import AbsentError, ConflictError, DeniedError
from unrack.live.kubernetes.client.connection import Connection
from unrack.live.kubernetes.client.objects import PODS, Pod
from unrack.live.kubernetes.client.orders import bind, delete, evict

LATER = "later"
"""There is no room yet, or it is not seen yet what became of it: it is ordered again."""
Members = Sequence[tuple[str, str]]
"""Keys of pods, each with its node."""


async def start_all(connection: Connection, picture: Picture, members: Members) -> str | Exception:
    """Bind what is not bound yet; ``""``: all are. :data:`LATER`, why never, or that nothing is known of it."""
    with picture.lock:
        if why := cannot_go_on(picture, members):
            return why
        left = [(key, node) for key, node in members if not picture.pods[key].spec.node_name]
        pods = [picture.pods[key] for key, _ in left]
        if why := _assumed(picture, left):
            return LATER if len(left) == len(members) else f"{why}, and others of its gang have theirs"
    works = (_bound(connection, pod, node) for pod, (_, node) in zip(pods, left, strict=True))
    found: list[str | Exception] = await asyncio.gather(*works)
    with picture.lock:
        for (key, _), one in zip(left, found, strict=True):
            if one != "":
                picture.assume_not(key)
    return _worst(found)


async def take_back(connection: Connection, picture: Picture, members: Members) -> str | Exception:
    """Delete those that are bound where that was decided; ``""``: that is done, or there are none."""
    with picture.lock:
        bound = [picture.pods[key] for key, node in members if key in picture.pods and _is_on(picture.pods[key], node)]
    return _worst(await asyncio.gather(*(_ended(delete(connection, PODS, pod)) for pod in bound if _is_there(pod))))


async def evict_all(connection: Connection, pods: Sequence[Pod]) -> str | Exception:
    """Evict pods that have nodes, one by one, with their own grace; ``""``: that is done.

    If a budget of disruptions does not allow the first, none is; any other is evicted as soon as it does.
    """
    for number, pod in enumerate(one for one in pods if _is_there(one)):
        if found := await _ended(evict(connection, pod)):
            return LATER if number and isinstance(found, str) else found
    return ""


def cannot_go_on(picture: Picture, members: Members) -> str:
    """Why some pod has not its node, and cannot have it; ``""``: all can, or have it. A reader holds the lock."""
    whys = ((key, _cannot_go_on(picture, key, node)) for key, node in members)
    return next((f"pod {_short(key)}: {why}" for key, why in whys if why), "")


def _cannot_go_on(picture: Picture, key: str, node: str) -> str:
    """Why a pod has not its node, and cannot have it; ``""``: it can, or has it."""
    pod = picture.pods.get(key)
    if pod is None or not _is_on(pod, node):
        return picture.cannot_start(key, node)
    if pod.metadata.deletion_timestamp:
        return "it is being deleted"
    return "it has failed" if pod.status.phase == "Failed" else ""


def _assumed(picture: Picture, left: Members) -> str:
    """Hold room for all that are not bound; or why that is not there: then none is held.

    They go one after the other, as they came, since one may have to be beside another, or balance it; those that
    others of them keep off go again after these.
    """
    for key, _ in left:
        picture.assume_not(key)
    todo, why = sorted(left, key=lambda one: picture.shown[one[0]].rank), ""
    while todo:
        waiting = list[tuple[str, str]]()
        for key, node in todo:
            if not picture.has_room(key, node):
                why, waiting = f"pod {_short(key)}: node {node} has no room for it", todo
                break
            if off := picture.keeps_off(key, node):
                why = f"pod {_short(key)}: {off}"
                waiting.append((key, node))
            else:
                picture.assume(key, node)
        if len(waiting) == len(todo):
            for key, _ in left:
                picture.assume_not(key)
            return why
        todo = waiting
    return ""


async def _bound(connection: Connection, pod: Pod, node: str) -> str | Exception:
    try:
        await bind(connection, pod, node)
    except answers.UnreachableError as error:
        return error
    except (ConflictError, AbsentError):
        return LATER  # it is bound already, perhaps where it was to be, or gone: what is seen next says so
    except DeniedError as error:
        return str(error)
    return ""


async def _ended(work: Awaitable[None]) -> str | Exception:
    try:
        await work
    except answers.UnreachableError as error:
        return error
    except (AbsentError, ConflictError):
        return ""
    except DeniedError as error:
        return str(error)
    return ""


def _worst(found: Sequence[str | Exception]) -> str | Exception:
    """What is not known counts more than a refusal, and that more than what is to be seen first."""
    worst: str | Exception = ""
    for one in found:
        if isinstance(one, Exception):
            return one
        worst = one if one and worst in ("", LATER) else worst
    return worst


def _is_there(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and not pod.metadata.deletion_timestamp and pod.status.phase not in OVER


def _is_on(pod: Pod, node: str) -> bool:
    return pod.spec.node_name == node


def _short(key: str) -> str:
    return key.rpartition("/")[0]
