"""The command line: one file a command; and options that commands of other distributions share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrack.public import lazily

if TYPE_CHECKING:
    from unrack.cli.options import OnOption as OnOption
    from unrack.cli.options import count_of as count_of
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
