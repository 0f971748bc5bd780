"""The questions of kube-scheduler, answered over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from unrack.live.kubernetes.adapter.picture import Picture, key_of
from unrack.live.kubernetes.adapter.watching import Watching
from unrack.live.kubernetes.client import answers
from unrack.live.kubernetes.client.answers import DeniedError
from unrack.live.kubernetes.client.orders import bind
from unrack.live.kubernetes.extender.judging import Judge
from unrack.live.kubernetes.extender.messages import BEST_SCORE, AskedPod, Bound, Filtered, Scored, filtered, names_of
from unrack.live.printable import printable
from unrack.live.watch.meters import Meters

MOST_BYTES = 2**26
"""Bytes of a question: 5 000 whole nodes, and a pod."""
KNOWN_WITHIN_S = 2.0
"""How long a pod that is to be bound may take to be seen."""
T = TypeVar("T")


class Extender:
    """Answers kube-scheduler.

    Parameters
    ----------
    watching, judge, meters
        What is known, and bound by; what judges; what counts the bindings that are refused.
    """

    def __init__(self, watching: Watching, judge: Judge, meters: Meters) -> None:
        self._watching, self._judge, self._meters = watching, judge, meters
        self._picture: Picture = judge.picture

    def application(self) -> web.Application:
        """What is served."""
        app = web.Application(client_max_size=MOST_BYTES)
        for verb, kind, answer in (("filter", AskedPod, self.filter), ("prioritize", AskedPod, self.prioritize)):
            app.router.add_post(f"/{verb}", self._answering(kind, answer))
        app.router.add_post("/bind", self._answering(Bound, self.bind))
        return app

    def _answering(self, kind: type[T], answer: Callable[[T], Any]) -> Callable[[web.Request], Any]:
        async def answered(request: web.Request) -> web.Response:
            try:
                found = await answer(msgspec.json.decode(await request.read(), type=kind))
            except (msgspec.DecodeError, RecursionError) as error:
                raise web.HTTPBadRequest(text=printable(str(error), 300)) from None
            return web.Response(body=msgspec.json.encode(found), content_type="application/json")

        return answered

    async def filter(self, asked: AskedPod) -> Filtered:
        """Which nodes have room for a pod."""
        if behind := self._watching.behind:
            return Filtered(error=f"what the extender knows may be out of date: {behind}"[:300])
        names = names_of(asked)
        with self._picture.lock:  # it is asked for again: what was being done has come to nothing
            self._picture.assume_not(key_of(asked.pod))
        return filtered(asked, names, *self._judge.unfit(asked.pod, names))

    async def prioritize(self, asked: AskedPod) -> list[Scored]:
        """How much each node is wanted; kube-scheduler goes on without us where it gets no answer."""
        if behind := self._watching.behind:
            raise web.HTTPServiceUnavailable(text=printable(behind, 300))
        names = names_of(asked)
        ranked = self._judge.ranked(asked.pod, names)
        scores = {name: BEST_SCORE - place for place, name in enumerate(ranked)}
        return [Scored(name, scores.get(name, 0)) for name in names]

    async def bind(self, bound: Bound) -> dict[str, str]:
        """Bind a pod; the answer has the error, if there is one."""
        why = await self._bound(bound)
        if why:
            self._meters.refused("bind")
        return {"Error": why}

    async def _bound(self, bound: Bound) -> str:
        key, picture = f"{bound.pod_namespace}/{bound.pod_name}/{bound.pod_uid}", self._picture
        await self._seen(key)
        with picture.lock:
            if (pod := picture.pods.get(key)) is None:
                return f"the extender knows no pod {key}"
            if pod.spec.node_name:
                return "" if pod.spec.node_name == bound.node else f"it is bound to node {pod.spec.node_name}"
            picture.assume_not(key)
            unfit = self._judge.unfit(pod, [bound.node])
            if why := {**unfit.later, **unfit.never}.get(bound.node, ""):
                return f"node {bound.node}: {why}"
            picture.assume(key, bound.node)
        try:
            await asyncio.wrap_future(self._watching.begin(bind(self._watching.connection, pod, bound.node)))
            return ""
        except (answers.UnreachableError, DeniedError) as error:
            why = str(error)
        with picture.lock:
            picture.assume_not(key)
        return why

    async def _seen(self, key: str) -> None:
        """Wait until a pod is seen, which kube-scheduler may have seen a moment before us."""
        loop = asyncio.get_running_loop()
        until = loop.time() + KNOWN_WITHIN_S
        while key not in self._picture.pods and loop.time() < until:
            await asyncio.sleep(0.01)
