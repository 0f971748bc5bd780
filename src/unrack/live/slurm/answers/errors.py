"""What an answer in JSON says went wrong: commands and service of 22.05 print that and claim success."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def error_in(answer: Mapping[str, Any]) -> str:
    """The first of an answer's errors, in printable characters; ``""``: there is none."""
    errors = answer.get("errors")
    if not isinstance(errors, list) or not errors:
        return ""
    said = str(errors[0])
    if isinstance(errors[0], Mapping):
        said = " ".join(str(errors[0][key]) for key in ("error", "description") if errors[0].get(key))
    return "".join(letter if letter.isprintable() else "?" for letter in (said or "an error")[:200])
