"""TCP servers on addresses of this machine that send back what they are sent: what stands in for servers of GPUs."""

from __future__ import annotations

import contextlib
import itertools
import socket
import socketserver
import threading


class _Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while said := self.request.recv(1024):
            self.request.sendall(said)


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


class Echoes:
    """All of them, each by the key of its pod."""

    def __init__(self) -> None:
        self._lock, self._servers = threading.Lock(), dict[str, _Server]()
        self._addresses = itertools.count(2)

    def open(self, key: str, port: int) -> str:
        """Serve, and say at which address."""
        with self._lock:
            if key in self._servers:
                return str(self._servers[key].server_address[0])
            number = next(self._addresses)
            server = _Server((f"127.7.{number // 250}.{number % 250 + 2}", port), _Echo)
            self._servers[key] = server
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return str(server.server_address[0])

    def close(self, key: str) -> None:
        """Serve no longer."""
        with self._lock:
            server = self._servers.pop(key, None)
        if server is not None:
            server.shutdown()
            server.server_close()

    def close_all(self) -> None:
        for key in [*self._servers]:
            self.close(key)

    def answer(self, servers: str) -> bool:
        """Whether all servers of a list such as ``10.0.0.1:70,10.0.0.2:70`` answer."""
        for server in servers.split(","):
            address, _, port = server.partition(":")
            try:
                with socket.create_connection((address, int(port)), 2) as connection:
                    connection.sendall(b"launch")
                    if connection.recv(1024) != b"launch":
                        return False
            except (OSError, ValueError):
                return False
        return True

    def is_open(self, address: str, port: int) -> bool:
        """Whether something listens there."""
        with contextlib.suppress(OSError), socket.create_connection((address, port), 1):
            return True
        return False
