"""The axis ``network``: the share of a link that is left to an application."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Annotated, ClassVar, Literal

from pydantic import Field, FiniteFloat

from unrack.errors import RunError
from unrack.profile.axes.axis import (
    AxisFile,
    AxisKind,
    Bandwidth,
    Level,
    LevelNeeds,
    Reached,
    Rig,
    Stand,
    Usage,
    at_most,
    number,
)
from unrack.profile.machine.cgroups import in_front
from unrack.profile.machine.journal import Journal
from unrack.profile.machine.machine import Machine, called
from unrack.profile.machine.marked import marked
from unrack.units import bandwidth_mb_s

HERE, PEER = "198.18.0.1", "198.18.0.2"  # addresses for benchmarks (RFC 2544), which no other namespace sees
_WAIT_S = 30.0
_NUMBERS = count()


class NetworkFile(AxisFile):
    """Shares of the link, above 0 and at most 1, which is the control."""

    kind: Literal["network"]
    levels: tuple[Annotated[FiniteFloat, Field(gt=0, le=1)], ...] = Field(min_length=1, max_length=64)
    rate: Bandwidth  # what the link carries in each direction: "200 Mb/s"
    serve: list[str] = Field(default=[], max_length=64)  # run on the other side, address ``{peer}``, while it runs
    port: int = Field(0, ge=0, le=65535, strict=True)  # what the other side listens at before a run begins; 0: nothing

    base: ClassVar[Level | None] = 1.0
    falls: ClassVar[bool] = False
    surrounds: ClassVar[bool] = True
    unit: ClassVar[str] = "share of the link"


class TokenBucket:
    """Two namespaces with a link between them, on which a token bucket lets so much pass in each direction."""

    name = "tbf"

    def lacks(self, machine: Machine, journal: Journal) -> str:
        """Why there is none, found out by making one."""
        if not machine.is_root:
            return "not root, and namespaces are root's"
        if missing := machine.lacks("ip", "tc", "ss"):
            return missing
        try:
            with _link(journal, f"{journal.token}-p") as (here, _):
                _shape(journal, here, 1.0)
                return ""
        except OSError as error:
            return str(error)

    @contextmanager
    def stand(self, axis: AxisFile, rig: Rig) -> Iterator[Stand]:
        """The namespaces and the link; copies have one each, as jobs have that do not share it."""
        assert isinstance(axis, NetworkFile)
        mb_s, name = bandwidth_mb_s(axis.rate), f"{rig.token}-{next(_NUMBERS)}"
        links: list[tuple[str, str]] = []
        with ExitStack() as made:

            @contextmanager
            def at(level: Level, within: LevelNeeds) -> Iterator[LevelNeeds]:
                rate, copies = number(level) * mb_s, within.copies
                while len(links) < copies:
                    links.append(made.enter_context(_link(rig.journal, f"{name}-{len(links)}")))
                with ExitStack() as served:
                    for here, peer in links[:copies]:
                        for side in (here, peer):
                            _shape(rig.journal, side, rate)
                        served.enter_context(_served(axis, rig, peer))
                    before, begun = [_passed(here) for here, _ in links[:copies]], time.monotonic()

                    def reached(usage: Usage) -> Reached:
                        del usage
                        took = time.monotonic() - begun
                        most = max(
                            b - a for (here, _), was in zip(links, before, strict=False)
                            for a, b in zip(was, _passed(here), strict=True)
                        )  # fmt: skip
                        return at_most(max(0.0, most / 1e6 - 0.1 * rate) / took, rate, "bytes of the link")

                    here = links[0][0] if copies == 1 else f"{name}-{{copy}}-a"
                    yield LevelNeeds(prefix=("ip", "netns", "exec", here), words={"peer": PEER}, reached=reached)

            yield at


@contextmanager
def _link(journal: Journal, name: str) -> Iterator[tuple[str, str]]:
    here, peer = f"{name}-a", f"{name}-b"
    with journal.made("netns", here), journal.made("netns", peer):
        for side in (here, peer):
            journal.called("ip", "netns", "add", side)
        journal.called("ip", "-n", here, "link", "add", "link0", "type", "veth", "peer", "name", "link0", "netns", peer)
        for side, address in ((here, HERE), (peer, PEER)):
            journal.called("ip", "-n", side, "addr", "add", f"{address}/30", "dev", "link0")
            for device in ("lo", "link0"):
                journal.called("ip", "-n", side, "link", "set", device, "up")
        yield here, peer


def _shape(journal: Journal, side: str, mb_s: float) -> None:
    """Let so many MB/s pass; a bucket of 10 ms, of two large packets at least."""
    burst = max(131_072, round(mb_s * 1e4))
    journal.called(
        "tc", "-n", side, "qdisc", "replace", "dev", "link0", "root", "tbf", "rate", f"{round(mb_s * 8e6)}bit",
        "burst", str(burst), "latency", "50ms",
    )  # fmt: skip


def _passed(side: str) -> tuple[int, int]:
    """Bytes received and sent so far."""
    found = json.loads(called(["ip", "-n", side, "-s", "-j", "link", "show", "link0"]))[0]["stats64"]
    return int(found["rx"]["bytes"]), int(found["tx"]["bytes"])


@contextmanager
def _served(axis: NetworkFile, rig: Rig, peer: str) -> Iterator[None]:
    if not axis.serve:
        yield
        return
    argv = [part.replace("{peer}", PEER) for part in axis.serve]
    with in_front(rig.machine, rig.journal) as doors:  # what it answers late would count as the link's
        server: subprocess.Popen[bytes] = marked(["ip", "netns", "exec", peer, *argv], rig.token, doors)
        try:
            deadline = time.monotonic() + _WAIT_S
            while axis.port and not called(["ip", "netns", "exec", peer, "ss", "-Hltn", f"sport = :{axis.port}"]):
                if server.poll() is not None or time.monotonic() > deadline:
                    raise RunError(f"axis {axis.label}: {argv[0]} does not listen at port {axis.port}")
                time.sleep(0.02)
            yield
        finally:
            server.kill()
            server.wait()


NETWORK = AxisKind("network", "a share of a link of a set bandwidth", NetworkFile, (TokenBucket(),))
