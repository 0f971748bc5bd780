"""Answers of an API server that are none of what was asked for, each a class of its own."""

from __future__ import annotations

import msgspec

from unrack.errors import RunError
from unrack.live.kubernetes.client.objects import Metadata
from unrack.live.printable import printable

MOST_SAID = 400
"""Characters of a server's message that are kept."""


class UnreachableError(RunError):
    """The server did not answer, not in time or only that it cannot: nothing is known of what was asked; ask again."""


class DeniedError(RunError):
    """The server answered, and did nothing.

    Parameters
    ----------
    what
        What was asked: ``POST /api/v1/…``.
    code
        Of HTTP: 400 to 499.
    reason, message
        As the server says it: ``AlreadyExists``, ``pods "p" already exists``.
    after_s
        When to ask again, s from now; 0: it does not say.
    """

    def __init__(self, what: str, code: int, reason: str = "", message: str = "", after_s: float = 0.0) -> None:
        super().__init__(what, code, reason, message, after_s)
        self.what, self.code, self.after_s = what, code, after_s
        self.reason, self.message = printable(reason), printable(message, MOST_SAID)

    def __str__(self) -> str:
        return f"{self.what}: {self.code} {self.reason}" + (f", {self.message}" if self.message else "")


class ForbiddenError(DeniedError):
    """401 or 403: the server does not know the account that asks, or that may not."""


class AbsentError(DeniedError):
    """404: there is no such object."""


class ConflictError(DeniedError):
    """409: it was changed, made or bound by another meanwhile."""


class GoneError(DeniedError):
    """410: too old; list again."""


class BusyError(DeniedError):
    """429: too much is asked of the server at once, or what is asked has to wait."""


_OF_CODE: dict[int, type[DeniedError]] = {
    401: ForbiddenError, 403: ForbiddenError, 404: AbsentError, 409: ConflictError, 410: GoneError, 429: BusyError,
}  # fmt: skip


class ApiStatus(msgspec.Struct):
    """What a server says of something that it did not do; a watch has marks of the same form."""

    metadata: Metadata = Metadata()
    code: int = 0
    reason: str = ""
    message: str = ""


def status_of(content: bytes) -> ApiStatus:
    """The status in an answer; one that says nothing where there is none."""
    try:
        return msgspec.json.decode(content, type=ApiStatus)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ApiStatus()


def denied(what: str, code: int, content: bytes, after_s: float = 0.0) -> UnreachableError | DeniedError:
    """The error for an answer that is no success; of one that only something before the server can have given too."""
    said = status_of(content)
    if not 400 <= code < 500 or code == 408:
        return UnreachableError(f"{what}: {code} {printable(said.message or said.reason, MOST_SAID)}".rstrip())
    return _OF_CODE.get(code, DeniedError)(what, code, said.reason, said.message, after_s)
