"""A watch goes on through whatever breaks, against a server that breaks on demand; nothing is lost or told twice."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import aclosing
from itertools import pairwise
from random import Random
from typing import Any, TypeVar

import pytest
from stand_in_api import Answer, StandInApi, bookmark, hang, line, page, pod, said, status, stream

from unrack.live.kubernetes.client.answers import (
    AbsentError,
    BusyError,
    ConflictError,
    DeniedError,
    ForbiddenError,
    UnreachableError,
)
from unrack.live.kubernetes.client.backoff import Backoff
from unrack.live.kubernetes.client.connection import Connection, Listed
from unrack.live.kubernetes.client.objects import PODS, Pod
from unrack.live.kubernetes.client.watch import Changed, Interrupted, Known, watch

T = TypeVar("T")
TOO_OLD = {"kind": "Status", "status": "Failure", "code": 410, "metadata": {}, "message": "too old"}
Seen = Listed[Pod] | Changed[Pod] | Interrupted


def run(work: Coroutine[Any, Any, T]) -> T:
    async def timed() -> T:
        return await asyncio.wait_for(work, 20)

    return asyncio.run(timed())


def quick() -> Backoff:
    return Backoff(first_s=0.01, most_s=0.02)


async def seen(api: StandInApi, count: int, **options: Any) -> list[Seen]:
    """What a watch says first."""
    found: list[Seen] = []
    async with (
        Connection(api.access, **options) as connection,
        aclosing(watch(connection, PODS, backoff=quick())) as told,
    ):
        async for one in told:
            found.append(one)
            if len(found) == count:
                return found
    raise AssertionError("a watch ended")


def watched(*answers: Answer, count: int) -> tuple[list[Seen], list[str]]:
    """What a watch says, and the versions that the server was asked to go on from."""

    async def work() -> tuple[list[Seen], list[str]]:
        async with StandInApi(*answers) as api:
            found = await seen(api, count)
            return found, [asked.query.get("resourceVersion", "list") for asked in api.asked]

    return run(work())


def names(one: Seen) -> list[tuple[str, str]]:
    assert isinstance(one, Changed)
    return [(what, thing.metadata.name) for what, thing in one.events]


def test_a_list_of_many_pages_is_one_list() -> None:
    found, _ = watched(page(pod("a", 1), more="two"), page(pod("b", 2), version=9), hang, count=1)
    assert isinstance(found[0], Listed)
    assert ([one.metadata.name for one in found[0].objects], found[0].version) == (["a", "b"], "9")


def test_pages_that_the_server_has_forgotten_are_asked_for_all_at_once() -> None:
    async def work() -> tuple[int, str]:
        slow = (page(pod("a", 1), more="two"), status(410, "Expired"), page(pod("a", 1), pod("b", 2), version=9))
        async with StandInApi(*slow) as api, Connection(api.access) as connection:
            return len((await connection.list(PODS)).objects), api.asked[-1].query["limit"]

    assert run(work()) == (2, "0")


@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
def test_lines_are_whole_however_they_are_cut(size: int) -> None:
    lines = b"".join(line("ADDED", pod(f"p{number}", 10 + number, note="é\n" * 9)) for number in range(30))
    pieces = [lines[at : at + size] for at in range(0, len(lines), size)]

    async def rest() -> list[tuple[str, str]]:
        async with StandInApi(page(version=1), stream(*pieces), hang) as api:
            got = list[tuple[str, str]]()
            async with Connection(api.access) as connection, aclosing(watch(connection, PODS)) as told:
                async for one in told:
                    if isinstance(one, Changed):
                        got += names(one)
                    if len(got) == 30:
                        return got
            raise AssertionError

    assert run(rest()) == [("ADDED", f"p{number}") for number in range(30)]


def test_what_follows_the_last_whole_line_of_a_broken_watch_is_not_taken() -> None:
    second = line("ADDED", pod("b", 3))
    found, asked = watched(
        page(pod("a", 1), version=1),
        stream(line("MODIFIED", pod("a", 2)), second[:-9], broken=True),
        stream(second),
        count=4,
    )
    assert names(found[1]) == [("MODIFIED", "a")]
    assert isinstance(found[2], Interrupted)
    assert asked == ["list", "1", "2"]


def test_a_watch_that_ends_at_once_is_not_asked_for_without_end() -> None:
    found, asked = watched(page(version=1), stream(), count=4)
    assert [type(one) for one in found] == [Listed, Interrupted, Changed, Interrupted]
    assert "ended at once" in str(found[1])
    assert asked == ["list", "1", "1"]


def test_a_line_without_an_end_is_not_taken_even_if_it_is_whole() -> None:
    whole = line("ADDED", pod("b", 3))[:-1]
    found, asked = watched(page(version=1), stream(whole), stream(whole + b"\n"), count=4)
    assert names(found[3]) == [("ADDED", "b")]
    assert asked == ["list", "1", "1"]


def test_a_bookmark_moves_where_a_watch_goes_on() -> None:
    _, asked = watched(page(version=1), stream(bookmark(50)), stream(line("ADDED", pod("b", 60))), count=2)
    assert asked == ["list", "1", "50"]


@pytest.mark.parametrize(
    "gone",
    [
        stream(line("ERROR", TOO_OLD)),
        stream(line("ADDED", pod("c", 5)), line("ERROR", TOO_OLD)),
        stream(line("ADDED", pod("c", 5)) + line("ERROR", TOO_OLD) + line("ADDED", pod("d", 6))),
        status(410, "Expired"),
    ],
)
def test_a_version_that_is_too_old_is_listed_again(gone: Answer) -> None:
    async def work() -> tuple[Seen, list[str]]:
        async with StandInApi(page(pod("a", 1)), gone, page(pod("b", 9), version=9), hang) as api:
            async with Connection(api.access) as connection, aclosing(watch(connection, PODS, backoff=quick())) as told:
                lists = 0
                async for one in told:
                    lists += isinstance(one, Listed)
                    if lists == 2:
                        return one, [asked.query.get("resourceVersion", "list") for asked in api.asked]
            raise AssertionError

    last, asked = run(work())
    assert isinstance(last, Listed)
    assert last.objects[0].metadata.name == "b"
    assert asked == ["list", "1", "list"]


@pytest.mark.parametrize("code", [500, 502, 503, 504, 429, 401, 403])
def test_a_watch_that_is_refused_for_a_while_goes_on_from_where_it_was(code: int) -> None:
    found, asked = watched(page(version=1), status(code, "Away"), stream(line("ADDED", pod("b", 2))), count=3)
    assert isinstance(found[1], Interrupted)
    assert str(code) in found[1].why
    assert asked == ["list", "1", "1"]


def test_no_server_has_a_watch_wait_for_hours() -> None:
    found, _ = watched(page(version=1), status(429, "Busy", Retry_After="9999"), count=2)
    assert isinstance(found[1], Interrupted)
    assert 60 <= found[1].wait_s <= 90


def test_a_watch_says_that_it_works_again_though_nothing_changed() -> None:
    async def quiet(request: Any) -> Any:
        from aiohttp import web

        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.sleep(20)
        return response

    found, _ = watched(page(version=1), status(500, "Away"), quiet, count=3)
    assert found[2] == Changed((), "1")


def test_rights_that_were_never_there_are_an_error_at_once() -> None:
    with pytest.raises(ForbiddenError, match="403 Forbidden"):
        watched(status(403, "Forbidden"), count=1)
    with pytest.raises(AbsentError):
        watched(status(404, "NotFound"), count=1)


def test_a_server_that_is_not_there_yet_is_waited_for() -> None:
    found, _ = watched(status(500, "Starting"), page(pod("a", 1)), hang, count=2)
    assert [type(one) for one in found] == [Interrupted, Listed]


def test_an_answer_that_is_not_understood_is_a_break_and_says_where() -> None:
    wrong = {**pod("b", 2), "spec": {"nodeName": 3}}
    found, _ = watched(page(version=1), stream(line("ADDED", wrong)), page(), count=2)
    assert isinstance(found[1], Interrupted)
    assert "spec.nodeName" in found[1].why


def test_an_endless_line_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unrack.live.kubernetes.client.watch._MOST_LINE", 1000)
    found, _ = watched(page(version=1), stream(*[b"x" * 400] * 9), count=2)
    assert isinstance(found[1], Interrupted)
    assert "more than 1000 bytes" in found[1].why


def test_a_server_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unrack.live.kubernetes.client.watch.LONGEST_S", 0)
    monkeypatch.setattr("unrack.live.kubernetes.client.watch._GRACE_S", 0.2)
    found, _ = watched(page(version=1), hang, count=2)
    assert isinstance(found[1], Interrupted)


def test_a_question_that_hangs_is_given_up_and_nothing_is_known_of_it() -> None:
    async def work() -> None:
        async with StandInApi(hang) as api, Connection(api.access, timeout_s=0.2) as connection:
            await connection.read(PODS, "a", "default")

    with pytest.raises(UnreachableError):
        run(work())


def test_a_server_that_is_busy_is_asked_again_when_it_says() -> None:
    async def work() -> int:
        busy = status(429, "TooManyRequests", Retry_After="1")
        async with StandInApi(busy, said(200, pod("a", 1))) as api, Connection(api.access) as connection:
            assert (await connection.read(PODS, "a", "default")).metadata.name == "a"
            return len(api.asked)

    assert run(work()) == 2


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (status(409, "Conflict"), ConflictError),
        (status(429, "TooManyRequests"), BusyError),
        (status(429, "TooManyRequests", Retry_After="9999"), BusyError),
        (status(422, "Invalid"), DeniedError),
        (said(302, {}, Location="http://127.0.0.1:1/"), UnreachableError),
        (said(200, ["no pod"]), UnreachableError),
        (said(401, "not even a status"), ForbiddenError),
    ],
)
def test_every_answer_that_is_no_success_has_an_error_of_its_own(answer: Answer, error: type[Exception]) -> None:
    async def work() -> None:
        async with StandInApi(answer) as api, Connection(api.access) as connection:
            await connection.read(PODS, "a", "default")

    with pytest.raises(error) as raised:
        run(work())
    assert type(raised.value) is error


def test_nothing_that_a_server_says_breaks_a_line_of_a_log() -> None:
    async def work() -> None:
        hostile = said(409, {"reason": "x\n\x1b[31m", "message": "y\r\n" * 9999})
        async with StandInApi(hostile) as api, Connection(api.access) as connection:
            await connection.read(PODS, "a", "default")

    with pytest.raises(ConflictError) as raised:
        run(work())
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 600


def test_names_stay_inside_their_path() -> None:
    async def work() -> str:
        async with StandInApi(said(200, pod("a", 1))) as api, Connection(api.access) as connection:
            await connection.read(PODS, "../../nodes?x=1#y", "a/b")
            return str(api.asked[0].raw_path)

    assert run(work()) == "/api/v1/namespaces/a%2Fb/pods/..%2F..%2Fnodes%3Fx%3D1%23y"


def test_waits_double_differ_by_their_seed_and_are_as_long_as_the_server_asks() -> None:
    def waits(seed: int) -> list[float]:
        backoff = Backoff(seed, 1.0, 8.0)
        return [backoff.next_s() for _ in range(6)]

    assert waits(1) == waits(1) != waits(2)
    assert all(whole / 2 <= wait <= whole for wait, whole in zip(waits(3), (1, 2, 4, 8, 8, 8), strict=True))
    backoff = Backoff(0, 1.0, 8.0)
    assert 20 <= backoff.next_s(20) <= 30
    backoff.reset()
    assert backoff.next_s() <= 1.0


def test_whatever_breaks_known_objects_are_those_that_the_server_has() -> None:
    """Random changes, broken at random; in the end the same objects are known as are there, each as it is last."""

    async def work(seed: int) -> None:
        random = Random(seed)
        history: list[tuple[str, dict[str, Any]]] = []
        there: dict[str, dict[str, Any]] = {}
        for version in range(2, 150):
            name, old = f"p{random.randrange(12)}", version
            if name in there and random.random() < 0.4:
                gone = there.pop(name)
                gone = {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(old)}}
                history.append(("DELETED", gone))
                continue
            uid = there[name]["metadata"]["uid"] if name in there else f"u{version}"
            history.append(("MODIFIED" if name in there else "ADDED", pod(name, version, uid)))
            there[name] = history[-1][1]

        def as_of(version: int) -> list[dict[str, Any]]:
            found: dict[str, dict[str, Any]] = {}
            for what, one in history[: version - 1]:
                found[one["metadata"]["name"]] = one
                if what == "DELETED":
                    del found[one["metadata"]["name"]]
            return list(found.values())

        reached = 1

        async def answer(request: Any) -> Any:
            nonlocal reached
            reached = min(reached + random.randrange(20), len(history) + 1)
            if "watch" not in request.query:
                return await page(*as_of(reached), version=reached)(request)
            since = int(request.query["resourceVersion"])
            fault = random.random()
            if fault < 0.15:
                return await status(random.choice([410, 500, 503, 403]), "Fault")(request)
            lines = b"".join(line(*one) for one in history[since - 1 : reached - 1])
            cut = random.randrange(len(lines) + 1) if fault < 0.6 and reached <= len(history) else len(lines)
            ends = [random.randrange(cut + 1) for _ in range(3)] + [0, cut]
            marks = sorted(ends)
            pieces = [lines[a:b] for a, b in pairwise(marks) if b > a]
            return await stream(*pieces, broken=fault < 0.3)(request)

        known, log = Known[Pod](), dict[str, str]()
        async with (
            StandInApi(answer) as api,
            Connection(api.access, seed=seed) as connection,
            aclosing(watch(connection, PODS, backoff=Backoff(seed, 0.001, 0.002))) as told,
        ):
            async for one in told:
                for before, after in known.take(one):
                    name = (before or after).metadata.name  # type: ignore[union-attr]
                    assert (before is None) == (name not in log)
                    if before is not None:
                        assert log[name] == before.metadata.uid
                    if after is None:
                        del log[name]
                    else:
                        assert log.get(name, after.metadata.uid) == after.metadata.uid
                        log[name] = after.metadata.uid
                version = one.version if not isinstance(one, Interrupted) else ""
                if version == str(len(history) + 1):
                    break
        assert {name: one.metadata.resource_version for (_, name), one in known.objects.items()} == {
            name: one["metadata"]["resourceVersion"] for name, one in there.items()
        }

    for seed in range(12):
        run(work(seed))
