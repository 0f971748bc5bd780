"""The client against a real API server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from k8s_bed import KubernetesBed

from unrack.live.kubernetes.client.access import access_here
from unrack.live.kubernetes.client.answers import AbsentError, ConflictError, DeniedError, ForbiddenError
from unrack.live.kubernetes.client.backoff import Backoff
from unrack.live.kubernetes.client.connection import Connection, Listed
from unrack.live.kubernetes.client.objects import NODES, PODS, Pod
from unrack.live.kubernetes.client.orders import bind, create, delete, patch, replace, tell
from unrack.live.kubernetes.client.watch import Changed, Interrupted, Known, watch

T = TypeVar("T")
OURS = {"fieldSelector": "spec.schedulerName=unrack"}


def run(work: Coroutine[Any, Any, T], timeout_s: float = 60) -> T:
    async def timed() -> T:
        return await asyncio.wait_for(work, timeout_s)

    return asyncio.run(timed())


@asynccontextmanager
async def connected(bed: KubernetesBed, config: Path | None = None) -> AsyncIterator[Connection]:
    async with Connection(access_here(config or bed.kubeconfig())) as connection:
        yield connection


class Follower:
    """What a watch of pods says, while a test goes on."""

    def __init__(self, connection: Connection) -> None:
        self.known, self.said = Known[Pod](), list[Listed[Pod] | Changed[Pod] | Interrupted]()
        self._task = asyncio.create_task(self._follow(connection))

    async def _follow(self, connection: Connection) -> None:
        async with aclosing(watch(connection, PODS, OURS, backoff=Backoff(0, 0.1, 1.0))) as told:
            async for one in told:
                self.said.append(one)
                self.known.take(one)

    async def until(self, holds: Callable[[], bool], timeout_s: float = 40) -> None:
        """Wait for that."""
        deadline = time.monotonic() + timeout_s
        while not holds():
            assert not self._task.done(), self._task
            assert time.monotonic() < deadline, self.said[-3:]
            await asyncio.sleep(0.02)

    async def end(self) -> None:
        """No more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def names(self) -> set[str]:
        """The names of the pods that are known."""
        return {name for _, name in self.known.objects}


def test_pods_come_change_and_go_and_those_of_others_are_not_seen(kubernetes: KubernetesBed) -> None:
    kubernetes.add_nodes(["n1"], {"cpu": "4"})
    kubernetes.add_pod("there")
    kubernetes.add_pod("of-others", schedulerName="default-scheduler")

    async def work() -> None:
        async with connected(kubernetes) as connection:
            follower = Follower(connection)
            await follower.until(lambda: follower.names() == {"there"})
            kubernetes.add_pod("later", run_s=0.1)
            await follower.until(lambda: follower.names() == {"there", "later"})
            await bind(connection, follower.known.objects["default", "later"], "n1")
            await follower.until(lambda: follower.known.objects["default", "later"].status.phase == "Succeeded")
            first = follower.known.objects["default", "there"]
            await delete(connection, PODS, first, grace_s=0)
            kubernetes.wait_until(lambda: kubernetes.pod("there") is None)
            kubernetes.add_pod("there")
            await follower.until(lambda: follower.known.objects.get(("default", "there"), first) is not first)
            await follower.end()
            assert not [one for one in follower.said if isinstance(one, Interrupted)]

    run(work())


def test_logins_by_token_file_and_certificate(kubernetes: KubernetesBed) -> None:
    async def work(**how: bool) -> int:
        async with connected(kubernetes, kubernetes.kubeconfig(**how)) as connection:
            return len((await connection.list(PODS)).objects)

    assert [run(work()), run(work(token_file=True)), run(work(certificate=True))] == [0, 0, 0]


def test_what_is_not_allowed_says_so(kubernetes: KubernetesBed) -> None:
    async def work() -> None:
        async with connected(kubernetes, kubernetes.kubeconfig("nobody")) as connection:
            await connection.list(NODES)

    with pytest.raises(ForbiddenError, match='User "nobody" cannot list resource "nodes"'):
        run(work())


def test_a_server_whose_certificate_is_not_trusted_is_not_asked(kubernetes: KubernetesBed, tmp_path: Path) -> None:
    config = tmp_path / "config"
    text = kubernetes.kubeconfig().read_text()
    config.write_text(text.replace("    certificate-authority: ca.crt\n", ""))

    async def work() -> int:
        async with connected(kubernetes, config) as connection:
            return len((await connection.list(NODES)).objects)

    with pytest.raises(Exception, match="certificate verify failed"):
        run(work())
    config.write_text(text.replace("certificate-authority: ca.crt", "insecure-skip-tls-verify: true"))
    assert run(work()) == 0


def test_a_server_that_is_killed_and_started_again_is_followed_on(new_kubernetes: Callable[..., KubernetesBed]) -> None:
    bed = new_kubernetes()

    async def work() -> None:
        async with connected(bed) as connection:
            follower = Follower(connection)
            bed.add_pod("before")
            await follower.until(lambda: follower.names() == {"before"})
            bed.kill("kube-apiserver")
            await follower.until(lambda: not follower.known.current)
            await asyncio.to_thread(bed.start_server)
            bed.add_pod("after")
            await follower.until(lambda: follower.names() == {"before", "after"} and follower.known.current)
            bed.pause("kube-apiserver")
            await asyncio.sleep(1)
            bed.resume("kube-apiserver")
            bed.add_pod("last")
            await follower.until(lambda: "last" in follower.names())
            await follower.end()

    run(work(), 120)


def test_what_etcd_has_forgotten_is_listed_again(new_kubernetes: Callable[..., KubernetesBed]) -> None:
    bed = new_kubernetes(kubelets=False)

    async def work() -> None:
        async with connected(bed) as connection:
            follower = Follower(connection)
            bed.add_pod("stays")
            bed.add_pod("goes")
            await follower.until(lambda: follower.names() == {"stays", "goes"})
            bed.kill("kube-apiserver")  # with what it remembers beyond etcd
            bed.kill("etcd")
            await follower.until(lambda: not follower.known.current)
            bed.start_etcd()
            await asyncio.to_thread(bed.start_server)
            bed.admin.delete("/api/v1/namespaces/default/pods/goes", gracePeriodSeconds=0)
            await follower.until(lambda: follower.names() == {"stays"})
            await follower.end()
            version = next(one.version for one in follower.said if isinstance(one, Listed))
            for number in range(3):
                bed.add_pod(f"more{number}")
            bed.compact()
            bed.kill("kube-apiserver")
            await asyncio.to_thread(bed.start_server)
            told = watch_from(connection, version)
            first = [await anext(told) for _ in range(2)]
            await told.aclose()
            assert isinstance(first[0], Interrupted), first
            assert "410" in first[0].why
            assert isinstance(first[1], Listed)
            assert len(first[1].objects) == 4

    run(work(), 120)


async def watch_from(connection: Connection, version: str) -> AsyncIterator[Any]:
    """A watch whose first list was as old as that."""
    real = connection.list

    async def old(*_: Any) -> Listed[Pod]:
        connection.list = real  # type: ignore[method-assign]
        return Listed((), version)

    connection.list = old  # type: ignore[method-assign, assignment]
    async with aclosing(watch(connection, PODS, OURS, backoff=Backoff(0, 0.1, 1.0))) as told:
        async for one in told:
            if not (isinstance(one, Listed) and not one.objects):
                yield one


def test_after_a_bookmark_a_quiet_watch_goes_on_from_there(new_kubernetes: Callable[..., KubernetesBed]) -> None:
    """Others change while ours do not. A server sends a bookmark a minute."""
    bed = new_kubernetes(kubelets=False)

    async def work() -> None:
        async with connected(bed) as connection:
            asked, came = list[int](), list[bytes]()
            real = connection.stream

            @asynccontextmanager
            async def stream(path: str, query: Any, longest_s: float) -> AsyncIterator[Any]:
                asked.append(int(query["resourceVersion"]))

                async def noted(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
                    async for piece in pieces:
                        came.append(piece)
                        yield piece

                async with real(path, query, longest_s) as pieces:
                    yield noted(pieces)

            connection.stream = stream  # type: ignore[method-assign]
            bed.add_pod("ours")
            follower = Follower(connection)
            await follower.until(lambda: len(asked) == 1)
            for number in range(10):
                bed.add_pod(f"theirs{number}", schedulerName="default-scheduler")
            await follower.until(lambda: b'"BOOKMARK"' in b"".join(came), 80)
            bed.kill("kube-apiserver")
            await asyncio.to_thread(bed.start_server)
            await follower.until(lambda: len(asked) > 1 and follower.known.current)
            await follower.end()
            assert asked[1] >= asked[0] + 10

    run(work(), 120)


def test_a_pod_is_bound_once_and_no_other_of_its_name(kubernetes: KubernetesBed) -> None:
    kubernetes.add_nodes(["n1", "n2"], {"cpu": "4"})
    kubernetes.add_pod("a")
    kubernetes.add_pod("gated", schedulingGates=[{"name": "wait"}])

    async def work() -> None:
        async with connected(kubernetes) as connection:
            pod = await connection.read(PODS, "a", "default")
            await bind(connection, pod, "n1")
            with pytest.raises(ConflictError, match="already assigned"):
                await bind(connection, pod, "n2")
            with pytest.raises(ConflictError, match=r"scheduling gates|gated"):
                await bind(connection, await connection.read(PODS, "gated", "default"), "n1")
            kubernetes.admin.delete("/api/v1/namespaces/default/pods/a", gracePeriodSeconds=0)
            kubernetes.wait_until(lambda: kubernetes.pod("a") is None)
            with pytest.raises(AbsentError):
                await bind(connection, pod, "n1")
            kubernetes.add_pod("a")
            with pytest.raises(ConflictError, match=r"UID|uid"):
                await bind(connection, pod, "n1")
            with pytest.raises(ConflictError, match=r"UID|uid"):
                await delete(connection, PODS, pod)
            assert "nodeName" not in kubernetes.pod("a")["spec"]  # type: ignore[index]

    run(work())


def test_statuses_and_objects_are_changed_unless_somebody_was_faster(kubernetes: KubernetesBed) -> None:
    async def work() -> None:
        async with connected(kubernetes) as connection:
            container = {"name": "c", "image": "i"}
            content = {"metadata": {"name": "made"}, "spec": {"schedulerName": "unrack", "containers": [container]}}
            pod = await create(connection, PODS, content, "default")
            with pytest.raises(ConflictError, match="already exists"):
                await create(connection, PODS, content, "default")
            with pytest.raises(DeniedError) as raised:
                await create(connection, PODS, {"metadata": {"name": "No"}, "spec": {}}, "default")
            assert raised.value.code == 422
            whole = kubernetes.pod("made")
            assert whole is not None
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}
            whole["status"]["conditions"] = [condition]
            await replace(connection, PODS, whole, "made", "default", "status")
            with pytest.raises(ConflictError):
                await replace(connection, PODS, whole, "made", "default", "status")
            assert kubernetes.pod("made")["status"]["conditions"][0]["message"] == "m"  # type: ignore[index]
            old = {"metadata": {"resourceVersion": pod.metadata.resource_version}, "status": {"reason": "x"}}
            with pytest.raises(ConflictError):
                await patch(connection, PODS, old, "made", "default", "status")
            new = {"status": {"conditions": [{"type": "Mine", "status": "True"}]}}
            await patch(connection, PODS, new, "made", "default", "status", how="strategic")
            kinds = [one["type"] for one in kubernetes.pod("made")["status"]["conditions"]]  # type: ignore[index]
            assert sorted(kinds) == ["Mine", "PodScheduled"]
            await tell(connection, pod, "Waits", "é" * 2000, action="Scheduling", by="unrack.test/u-0", warning=True)

    run(work())
    events = kubernetes.admin.get("/api/v1/namespaces/default/events")["items"]
    (event,) = [one for one in events if one["involvedObject"]["name"] == "made"]
    assert (event["reason"], event["type"], event["message"]) == ("Waits", "Warning", "é" * 512)


@pytest.fixture(scope="module")
def many(programs: Path) -> Any:
    """A cluster of 1000 nodes and 10 000 pods of 2.4 kB."""
    with KubernetesBed(programs, kubelets=False) as bed:
        noise = {f"example.org/{number}": "x" * 100 for number in range(14)}
        with ThreadPoolExecutor(8) as pool:
            nodes = pool.map(lambda n: bed.add_nodes([f"n{n}"], {"cpu": "64", "memory": "256Gi"}), range(1000))
            assert len(list(nodes)) == 1000
            pods = pool.map(
                lambda n: bed.add_pod(f"p{n}", {"cpu": "1", "memory": "1Gi"}, metadata={"annotations": noise}),
                range(10_000),
            )
            assert len(list(pods)) == 10_000
        yield bed


def test_ten_thousand_pods_and_a_thousand_nodes_are_read_in_two_cpu_seconds(many: KubernetesBed) -> None:
    async def work() -> tuple[int, int]:
        async with connected(many) as connection:
            pods, nodes = await asyncio.gather(connection.list(PODS, OURS), connection.list(NODES))
            return len(pods.objects), len(nodes.objects)

    begun = time.process_time()
    assert run(work()) == (10_000, 1000)
    used_s = time.process_time() - begun
    assert used_s < 2, f"{used_s:.2f} CPU s"


def test_five_thousand_events_a_second_are_taken(many: KubernetesBed) -> None:
    """As many events as etcd still remembers are asked for again; the server sends them as fast as they are taken."""

    async def work() -> tuple[int, float, float]:
        async with connected(many) as connection:
            first = next(iter((await connection.list(PODS, {"limit": "1"})).objects)).metadata.resource_version
            versions = [int(one.metadata.resource_version) for one in (await connection.list(PODS)).objects]
            told = watch_from(connection, str(min([int(first), *versions]) - 1))
            begun, used, count = time.monotonic(), time.process_time(), 0
            async for one in told:
                assert isinstance(one, Changed), one
                count += len(one.events)
                if count >= 5000:
                    break
            return count, time.monotonic() - begun, time.process_time() - used

    count, wall_s, used_s = run(work())
    assert count / used_s > 5000, f"{count} events in {wall_s:.2f} s, {used_s:.2f} CPU s"
