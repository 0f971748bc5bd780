"""Text from outside as messages and logs show it: on one line, without control characters, not too long."""

from __future__ import annotations

MOST_SHOWN = 80
"""Characters of a word from outside that a message shows."""
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}


def printable(text: str, most: int = MOST_SHOWN) -> str:
    r"""The text with control characters, half surrogates and the like escaped, cut at ``most`` characters.

    Examples
    --------
    >>> printable("two\nlines and a bell\a"), printable("x" * 100, most=8)
    ('two\\nlines and a bell\\x07', 'xxxxx...')
    """
    shown: list[str] = []
    length = 0
    for character in text[: most + 1]:
        shown.append(character if character.isprintable() and character != "\\" else _escaped(character))
        length += len(shown[-1])
    if length <= most:
        return "".join(shown)
    while length > most - 3:
        length -= len(shown.pop())
    return "".join(shown) + "..."


def _escaped(character: str) -> str:
    code = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
