"""A small web server for ``/metrics``, ``/healthz`` and ``/readyz``, in a thread of its own."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import suppress
from http import HTTPStatus
from http.client import LineTooLong
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, BinaryIO

from unrack.errors import InputError
from unrack.live.watch.address import Address
from unrack.live.watch.health import Health
from unrack.live.watch.meters import CONTENT_TYPE, MISSING, Meters

SLOWEST_S = 5.0
"""A client that is silent, or not done, for so long is hung up on."""
MOST_AT_ONCE = 64
"""So many clients are answered at a time; when another comes, the oldest is hung up on."""
LONGEST = 2**14
"""Bytes of a request that are read."""


class WatchServer:
    """Serves what operators watch, until :meth:`close`. It reads, and nothing can be changed through it.

    Parameters
    ----------
    address
        Where to listen; port 0: any free one, see :attr:`address`.
    meters, health
        What is served.
    allow_remote
        The address may be one that other machines reach.

    Raises
    ------
    InputError
        The address is one that other machines reach, or nothing can listen there.
    """

    def __init__(self, address: Address, meters: Meters, health: Health, allow_remote: bool = False) -> None:
        if not address.is_loopback and not allow_remote:
            raise InputError("metrics.address", f"'{address}'", "a loopback address, or allow_remote = true")
        try:
            self._server = _Server(address, meters, health)
        except OSError as error:
            raise InputError("metrics.address", f"'{address}': {error.strerror}", "one that is free") from None
        self._thread = threading.Thread(target=self._server.serve_forever, name="watch", daemon=True)
        self._thread.start()

    @property
    def address(self) -> Address:
        """Where it listens."""
        host, port = self._server.server_address[:2]
        return Address(str(host), int(port))

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=SLOWEST_S)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = MOST_AT_ONCE

    def __init__(self, address: Address, meters: Meters, health: Health) -> None:
        self.address_family = socket.AF_INET6 if address.is_version_6 else socket.AF_INET
        self.meters, self.health = meters, health
        self._open: dict[socket.socket, float] = {}  # since when, the oldest first
        self._guard = threading.Lock()
        super().__init__((address.host, address.port), _Answers)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._guard:
            while len(self._open) >= MOST_AT_ONCE:
                self._hang_up(next(iter(self._open)))
            self._open[request] = time.monotonic()
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Hang up on clients that take too long, however busy they look; called twice a second."""
        late_s = time.monotonic() - SLOWEST_S
        with self._guard:
            for request in [request for request, since_s in self._open.items() if since_s < late_s]:
                self._hang_up(request)

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def _hang_up(self, request: socket.socket) -> None:
        """Let the thread of a client find that the client is gone; it closes the socket."""
        del self._open[request]
        with suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is nothing to write about."""


class _Bounded:
    """Reads the lines of a request, up to :data:`LONGEST` bytes of them."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._left = file, LONGEST

    def readline(self, most: int) -> bytes:
        """The next line."""
        line = self._file.readline(min(most, self._left))
        self._left -= len(line)
        if not self._left:
            raise LineTooLong("request")
        return line

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class _Answers(BaseHTTPRequestHandler):
    timeout = SLOWEST_S
    server: _Server
    rfile: Any
    server_version = "unrack"
    sys_version = ""

    def setup(self) -> None:
        super().setup()
        self.rfile = _Bounded(self.rfile)

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path in ("/healthz", "/readyz"):
            well, told = self.server.health.told(is_ready=path == "/readyz")
            self._answer(
                HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE, json.dumps(told) + "\n", "application/json"
            )
        elif path == "/metrics" and self.server.meters.counts:
            self._answer(HTTPStatus.OK, self.server.meters.text(), CONTENT_TYPE)
        elif path == "/metrics":
            self._answer(HTTPStatus.NOT_IMPLEMENTED, MISSING, "text/plain")
        else:
            self._answer(HTTPStatus.NOT_FOUND, "there is /metrics, /healthz and /readyz\n", "text/plain")

    do_HEAD = do_GET  # noqa: N815

    def _answer(self, status: HTTPStatus, body: str | bytes, kind: str) -> None:
        raw = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(raw)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (as in http.server)
        """Requests are not logged: their lines are what strangers wrote."""
