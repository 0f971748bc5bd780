"""A connection to an API server: one question and its answer, or a stream of them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Generic, NamedTuple, TypeVar

import aiohttp
import msgspec
from yarl import URL

from unrack.live.kubernetes.client.access import Access
from unrack.live.kubernetes.client.answers import BusyError, GoneError, UnreachableError, denied
from unrack.live.kubernetes.client.backoff import Backoff
from unrack.live.kubernetes.client.objects import Kind, Thing
from unrack.live.printable import printable

T = TypeVar("T", bound=Thing)
PAGE = 500
"""Objects of one answer when all are listed."""
_TOKEN_S = 60.0
"""How long a token of a file is taken to be the same."""
_TRIES = 4
"""How often a question is asked while the server is too busy to look at it."""
_MOST_AFTER_S = 10.0
"""How long is waited within one question, s, if the server asks for that."""
_ALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""A server that is gone without a word is noticed after 30 s, also while a watch has nothing to say."""
_FAILURES = (aiohttp.ClientError, TimeoutError, OSError)


class PageMetadata(msgspec.Struct, frozen=True):
    """Where a list stands."""

    version: str = msgspec.field(default="", name="resourceVersion")
    next_page: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct, Generic[T]):
    """A part of a list."""

    items: list[T] | None = None
    metadata: PageMetadata = PageMetadata()


class Listed(NamedTuple, Generic[T]):
    """All objects of a kind at one moment, and its version: a watch goes on from there."""

    objects: Sequence[T]
    version: str


class Connection:
    """An API server, in an ``async with``. All that asks may raise UnreachableError, or a DeniedError if it said no.

    Parameters
    ----------
    access
        Where it is, and as which account it is asked.
    timeout_s
        How long an answer may take, s; a watch as long as it likes.
    seed
        Of what is random in waits.
    connections
        How many questions are under way at most, watches among them.
    """

    def __init__(self, access: Access, *, timeout_s: float = 30.0, seed: int = 0, connections: int = 64) -> None:
        self.access, self.seed = access, seed
        self._timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(timeout_s, 10.0))
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None
        self._token, self._token_at = "", float("-inf")

    async def __aenter__(self) -> Connection:
        connector = aiohttp.TCPConnector(limit=self._connections, socket_factory=_socket)
        # Answers are not compressed: unpacking them takes longer than loopback or a network of a data centre does.
        self._session = aiohttp.ClientSession(connector=connector, headers={"Accept-Encoding": "identity"})
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        assert self._session is not None
        await self._session.close()

    async def ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        """The answer to one question, as it came; asked again only while the server says that it did not look at it."""
        backoff, left = Backoff(self.seed), _TRIES
        while True:
            left -= 1
            try:
                async with self._request(method, path, query, body, content_type, self._timeout) as answer:
                    return await answer.read()
            except BusyError as error:
                if left <= 0 or not 0 < error.after_s <= _MOST_AFTER_S:
                    raise  # without a time it is an object that is not ready, such as a pod that may not be evicted
                await asyncio.sleep(backoff.next_s(error.after_s))
            except _FAILURES as error:
                raise UnreachableError(f"{method} {path}: {_why(error)}") from None

    async def read(self, kind: Kind[T], name: str, namespace: str = "") -> T:
        """One object."""
        content = await self.ask("GET", kind.path(namespace, name))
        found: T = decoded(msgspec.json.Decoder(kind.type), content, kind.path(namespace, name))
        return found

    async def list(self, kind: Kind[T], selectors: Mapping[str, str] | None = None, namespace: str = "") -> Listed[T]:
        """All objects of a kind, page by page.

        Parameters
        ----------
        kind
            Which.
        selectors
            ``fieldSelector`` and ``labelSelector``.
        namespace
            Only of one; ``""``: of all.
        """
        path, decoder, limit = kind.path(namespace), msgspec.json.Decoder(Page[kind.type]), PAGE  # type: ignore[name-defined]
        while True:
            objects, query = list[T](), {**(selectors or {}), "limit": str(limit)}
            try:
                while True:
                    page: Page[T] = decoded(decoder, await self.ask("GET", path, query), path)
                    objects += page.items or ()
                    if not page.metadata.next_page:
                        return Listed(objects, page.metadata.version)
                    query["continue"] = page.metadata.next_page
            except GoneError:
                if limit == 0:
                    raise
                limit = 0  # the pages were too slow for what the server remembers: all at once

    @asynccontextmanager
    async def stream(
        self, path: str, query: Mapping[str, str], longest_s: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """An answer that goes on, in pieces as they come, for as long as that at most."""
        timeout = aiohttp.ClientTimeout(total=longest_s, sock_connect=self._timeout.sock_connect)
        try:
            async with self._request("GET", path, query, None, "", timeout) as answer:
                yield answer.content.iter_any()
        except _FAILURES as error:
            raise UnreachableError(f"GET {path}: {_why(error)}") from None

    @asynccontextmanager
    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: bytes | None,
        content_type: str,
        timeout: aiohttp.ClientTimeout,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        assert self._session is not None, "a connection is used in an async with"
        url = URL(self.access.server + path, encoded=True).with_query(query)
        token = self._current_token()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if body is not None:
            headers["Content-Type"] = content_type
        tls: Any = True if self.access.tls is None else self.access.tls
        async with self._session.request(
            method, url, data=body, headers=headers, ssl=tls, server_hostname=self.access.tls_name, timeout=timeout,
            allow_redirects=False,
        ) as answer:  # fmt: skip
            if not 200 <= answer.status < 300:
                if answer.status == 401:
                    self._token_at = float("-inf")
                raise denied(f"{method} {path}", answer.status, await answer.read(), _after_s(answer))
            yield answer

    def _current_token(self) -> str:
        now = asyncio.get_running_loop().time()
        if now - self._token_at > _TOKEN_S:
            self._token, self._token_at = self.access.token(), now
        return self._token


def decoded(decoder: msgspec.json.Decoder[Any], content: bytes, where: str) -> Any:
    """What came; an UnreachableError if it is not understood."""
    try:
        return decoder.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise not_understood(where, str(error)) from None


def not_understood(where: str, problem: str) -> UnreachableError:
    """The error for what no API server says."""
    return UnreachableError(f"{where}: an answer that is not understood ({printable(problem, 160)})")


def _after_s(answer: aiohttp.ClientResponse) -> float:
    text = answer.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 5 else 0.0


def _why(error: BaseException) -> str:
    return printable(str(error) or type(error).__name__, 200)


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _ALIVE.items():
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made
