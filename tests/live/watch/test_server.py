"""The web server of metrics and health."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from unrack.errors import InputError
from unrack.live.watch.address import Address
from unrack.live.watch.health import Health
from unrack.live.watch.meters import Meters
from unrack.live.watch.server import MOST_AT_ONCE, WatchServer


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def health(clock: Clock) -> Health:
    return Health(30.0, "slurm", clock)


@pytest.fixture
def server(health: Health) -> Iterator[WatchServer]:
    made = WatchServer(Address("127.0.0.1", 0), Meters("easy", ["batch"]), health)
    yield made
    made.close()


def get(server: WatchServer, path: str, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection(server.address.host, server.address.port, timeout=10)
    connection.request(method, path)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_health_is_well_while_the_loop_turns(server: WatchServer, health: Health, clock: Clock) -> None:
    status, body = get(server, "/healthz")
    assert (status, json.loads(body)["status"]) == (200, "starting")
    health.turned()
    clock.now_s += 29
    status, body = get(server, "/healthz")
    assert (status, json.loads(body)) == (
        200, {"status": "well", "since_turn_s": 29.0, "turns": 1, "up_s": 29.0, "slurm": "reachable"},
    )  # fmt: skip


def test_health_is_ill_with_a_reason_when_the_loop_stalls(server: WatchServer, health: Health, clock: Clock) -> None:
    health.turned()
    clock.now_s += 31
    status, body = get(server, "/healthz?verbose")
    assert (status, json.loads(body)["status"]) == (503, "ill")
    assert json.loads(body)["reason"] == "the loop has not turned for 31.0 s; it should within 30 s"
    health.turned()
    assert get(server, "/healthz")[0] == 200


def test_a_scheduler_that_stopped_says_why(server: WatchServer, health: Health) -> None:
    health.turned()
    health.failed("policy raised\nZeroDivisionError")
    status, body = get(server, "/healthz")
    assert (status, json.loads(body)["reason"]) == (503, "policy raised\\nZeroDivisionError")


def test_slurm_out_of_reach_is_told_and_makes_nobody_ill(server: WatchServer, health: Health, clock: Clock) -> None:
    health.reached(False)
    clock.now_s += 5
    health.reached(False)
    health.turned()
    status, body = get(server, "/healthz")
    assert (status, json.loads(body)["slurm"], json.loads(body)["unreachable_s"]) == (200, "unreachable", 5.0)
    health.reached(True)
    assert "unreachable_s" not in json.loads(get(server, "/healthz")[1])


def test_metrics_are_served_and_nothing_else_is(server: WatchServer) -> None:
    pytest.importorskip("prometheus_client", reason="needs the extra live")
    status, body = get(server, "/metrics")
    assert status == 200
    assert "unrack_build_info" in body
    assert get(server, "/metrics", "HEAD") == (200, "")
    assert get(server, "/")[0] == 404
    assert get(server, "/metrics/../../etc/passwd")[0] == 404
    assert get(server, "/healthz", "POST")[0] == 501


def test_metrics_without_their_library_say_what_to_install(health: Health) -> None:
    server = WatchServer(Address("127.0.0.1", 0), Meters(wanted=False), health)
    status, body = get(server, "/metrics")
    assert (status, "unrack[live]" in body, get(server, "/healthz")[0]) == (501, True, 200)
    server.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7", "::"])
def test_addresses_that_others_reach_are_refused_unless_they_are_allowed(host: str, health: Health) -> None:
    with pytest.raises(InputError, match="a loopback address, or allow_remote = true"):
        WatchServer(Address(host, 0), Meters(wanted=False), health)
    if host == "0.0.0.0":
        WatchServer(Address(host, 0), Meters(wanted=False), health, allow_remote=True).close()


def test_an_address_in_use_is_an_error_that_says_so(server: WatchServer, health: Health) -> None:
    with pytest.raises(InputError, match=r"metrics\.address.*in use"):
        WatchServer(server.address, Meters(wanted=False), health)


def test_clients_that_say_nothing_do_not_keep_others_waiting_or_threads_growing(server: WatchServer) -> None:
    before = threading.active_count()
    crowd = []
    for count in (8, MOST_AT_ONCE, 2 * MOST_AT_ONCE):
        crowd += [socket.create_connection(server.address, timeout=10) for _ in range(count)]
        assert get(server, "/healthz")[0] == 200
    for client in crowd[:-MOST_AT_ONCE]:
        assert client.recv(1) == b""  # hung up on, the oldest first
    assert threading.active_count() <= before + MOST_AT_ONCE + 1
    for client in crowd:
        client.close()


@pytest.mark.long
@pytest.mark.parametrize(
    "begun", [b"", b"G", b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nx: "], ids=["", "G", "head"]
)
def test_clients_that_trickle_are_hung_up_on_though_they_are_never_silent(
    server: WatchServer, monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    monkeypatch.setattr("unrack.live.watch.server.SLOWEST_S", 0.4)
    began = time.monotonic()
    clients = [socket.create_connection(server.address, timeout=10) for _ in range(5)]
    for client in clients:
        client.sendall(begun)
        client.settimeout(0.02)
    while clients and time.monotonic() < began + 10:
        assert get(server, "/healthz")[0] == 200
        clients = [client for client in clients if not hung_up(client)]
    assert not clients
    assert time.monotonic() - began < 3


def hung_up(client: socket.socket) -> bool:
    """Send one byte more, and look whether anybody is there."""
    try:
        client.sendall(b"x")
        return client.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def test_a_client_that_is_answered_is_not_kept(server: WatchServer) -> None:
    with socket.create_connection(server.address, timeout=10) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n")
        assert b"200 OK" in client.makefile("rb").read()


@pytest.mark.parametrize(
    "text", [b"GET /" + b"a" * 2**22, b"GET /healthz HTTP/1.1\r\n" + b"x: y\r\n" * 2**20], ids=["path", "headers"]
)
def test_requests_without_end_are_not_read_to_it(server: WatchServer, text: bytes) -> None:
    with (
        socket.create_connection(server.address, timeout=10) as client,
        pytest.raises((ConnectionResetError, BrokenPipeError)),
    ):
        client.sendall(20 * text)
    assert get(server, "/healthz")[0] == 200


def test_clients_that_do_not_take_their_answer_do_not_keep_others_waiting(server: WatchServer) -> None:
    crowd = [socket.create_connection(server.address, timeout=10) for _ in range(2 * MOST_AT_ONCE)]
    for client in crowd:
        with suppress(OSError):  # hung up on already
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
    assert get(server, "/healthz")[0] == 200
    for client in crowd:
        client.close()


def test_nonsense_is_answered_with_an_error_and_the_server_goes_on(server: WatchServer) -> None:
    with socket.create_connection(server.address, timeout=10) as client:
        client.sendall(b"\x00\xff" * 1000 + b"\r\n\r\n")
        assert b"400" in client.recv(4096)
    with socket.create_connection(server.address, timeout=10) as client:
        client.sendall(b"GET /healthz HTTP/1.0\r\n" + b"x: " + b"y" * 70_000 + b"\r\n\r\n")
        assert b"431" in client.recv(4096)
    assert get(server, "/healthz")[0] == 200


@pytest.mark.parametrize(
    "text",
    ["", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999", "name:80", "::1:80", "[::1]", "[127.0.0.1]:1", "300.1.1.1:1"],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="an address and a port in numbers"):
        Address.of(text)


@pytest.mark.parametrize("text", ["127.0.0.1:9641", "[::1]:80", "0.0.0.0:0"])
def test_addresses_are_read_as_they_are_written(text: str) -> None:
    assert str(Address.of(text)) == text
