"""Requests to slurmrestd, over a socket of this machine or over the network."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from unrack.errors import InputError
from unrack.live.slurm.client import UnreachableError

MOST_BYTES = 1 << 30
"""The longest answer that is read."""
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{1,16384}")
_USER = re.compile(r"[A-Za-z0-9._@-]{1,256}")
_PIECE = 1 << 18


class Response(NamedTuple):
    """An answer: its status, and its JSON if it is a table of it."""

    status: int
    body: Mapping[str, Any]


class Token:
    """A token of the REST service, in a file that is read anew each time, or in a variable. It is never shown.

    Parameters
    ----------
    file
        Where it is; ``None``: in the variable ``SLURM_JWT``.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file

    def headers(self, user: str) -> dict[str, str]:
        """The headers of a request by a user.

        Raises
        ------
        InputError
            There is no token.
        """
        if self._file is None:
            where, said = "SLURM_JWT", os.environ.get("SLURM_JWT", "")
        else:
            where = str(self._file)
            try:
                said = self._file.read_text(encoding="ascii", errors="replace")
            except OSError as error:
                raise InputError(where, error.strerror or "no file", "a file with a token") from error
        token = said.strip().removeprefix("SLURM_JWT=")
        if _TOKEN.fullmatch(token) is None:
            raise InputError(where, "something else" if token else "nothing", "a token, as scontrol token prints it")
        return {"X-SLURM-USER-NAME": user, "X-SLURM-USER-TOKEN": token}


class Connection:
    """Where slurmrestd listens: ``unix:/run/slurmrestd.socket``, ``http://host:6820`` or ``https://host``.

    A request is one connection. Without a token, the service must know who asks by the socket (``rest_auth/local``).
    """

    def __init__(self, address: str, user: str = "", token: Token | None = None, timeout_s: float = 10.0) -> None:
        self._timeout_s = timeout_s
        self._token = token
        self._user = user
        if token is not None and _USER.fullmatch(user) is None:
            raise InputError("the user of the REST service", repr(user)[:80], "a name")
        parts = urlsplit(address)
        is_known = (parts.scheme == "unix" and parts.path) or (parts.scheme in ("http", "https") and parts.hostname)
        if not is_known or parts.username or parts.query or parts.fragment:
            raise InputError(
                "the address of slurmrestd", repr(address)[:80], "unix:/path, http://host:port or https://host"
            )
        self._parts = parts

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Response:
        """Send a request and read the answer.

        Raises
        ------
        UnreachableError
            There is no answer, or not in time.
        InputError
            There is no token.
        """
        headers = {"Accept": "application/json"} | (self._token.headers(self._user) if self._token else {})
        sent = None
        if body is not None:
            sent = json.dumps(body)
            headers["Content-Type"] = "application/json"
        until = time.monotonic() + self._timeout_s
        opened = self._opened()
        try:
            opened.request(method, path, sent, headers)
            response = opened.getresponse()
            answer = bytearray()
            while piece := response.read1(_PIECE):
                answer += piece
                if len(answer) > MOST_BYTES or time.monotonic() > until:
                    raise UnreachableError(f"slurmrestd: the answer to {method} {path} is too long or too slow")
            return Response(response.status, _table(bytes(answer)))
        except (OSError, http.client.HTTPException) as error:
            raise UnreachableError(f"slurmrestd: {method} {path}: {type(error).__name__} {str(error)[:120]}") from error
        finally:
            opened.close()

    def _opened(self) -> http.client.HTTPConnection:
        if self._parts.scheme == "unix":
            return _UnixConnection(self._parts.path, self._timeout_s)
        host, port = str(self._parts.hostname), self._parts.port
        if self._parts.scheme == "https":
            return http.client.HTTPSConnection(host, port or 443, timeout=self._timeout_s)
        return http.client.HTTPConnection(host, port or 6820, timeout=self._timeout_s)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("slurmrestd", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _table(answer: bytes) -> Mapping[str, Any]:
    try:
        said = json.loads(answer.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}
