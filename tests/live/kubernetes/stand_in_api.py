"""An API server in this process, for what a real one does not do on demand: each question is answered by a test."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from unrack.live.kubernetes.client.access import Access

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class StandInApi:
    """A server in an ``async with``; ``answers``: of its questions in order, the last one of all that come later."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.asked: list[web.Request] = []
        self.bodies: list[bytes] = []

    @property
    def access(self) -> Access:
        """How it is reached."""
        return Access(str(self._runner.addresses and f"http://127.0.0.1:{self._runner.addresses[0][1]}"))

    async def __aenter__(self) -> StandInApi:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        self.bodies.append(await request.read())
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return await answer(request)


def pod(name: str, version: int, uid: str = "", **spec: Any) -> dict[str, Any]:
    """A pod as the API has it."""
    metadata = {"name": name, "namespace": "default", "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def page(*items: dict[str, Any], version: int = 1, more: str = "") -> Answer:
    """A list, or a page of one."""
    metadata = {"resourceVersion": str(version), **({"continue": more} if more else {})}
    return said(200, {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": list(items)})


def said(code: int, content: Any, **headers: str) -> Answer:
    """An answer with this content."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response(
            content, status=code, headers={key.replace("_", "-"): of for key, of in headers.items()}
        )

    return answer


def status(code: int, reason: str, **headers: str) -> Answer:
    """The status that says why nothing was done."""
    return said(code, {"kind": "Status", "code": code, "reason": reason, "message": f"it is {reason}"}, **headers)


def line(what: str, thing: dict[str, Any]) -> bytes:
    """A line of a watch."""
    return json.dumps({"type": what, "object": thing}).encode() + b"\n"


def bookmark(version: int) -> bytes:
    """A line that says only how far the watch is."""
    thing = {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": str(version)}}
    return line("BOOKMARK", {**thing, "spec": {"containers": None}, "status": {}})


def stream(*pieces: bytes, broken: bool = False) -> Answer:
    """A watch of these pieces, as they are cut; then it ends as it should, or its connection breaks."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
        if broken:
            assert request.transport is not None
            request.transport.close()
        else:
            await response.write_eof()
        return response

    return answer


async def hang(request: web.Request) -> web.StreamResponse:
    """No answer at all."""
    import asyncio

    await asyncio.sleep(60)
    return web.Response()
