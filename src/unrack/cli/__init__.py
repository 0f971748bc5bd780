"""The command line: one file a command; and options that commands of other distributions share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrack.extras import lazily

if TYPE_CHECKING:
    from unrack.cli.listing import summaries as summaries
    from unrack.cli.options import Json as Json
    from unrack.cli.options import OnOption as OnOption
    from unrack.cli.options import Seed as Seed
    from unrack.cli.options import agreement as agreement
    from unrack.cli.options import count_of as count_of
    from unrack.cli.options import facts as facts
    from unrack.cli.options import need_ending as need_ending
    from unrack.cli.options import presets as presets
    from unrack.cli.options import print_json as print_json
    from unrack.cli.options import print_lines as print_lines
    from unrack.cli.options import print_page as print_page
    from unrack.cli.options import say_when_compiling as say_when_compiling
    from unrack.cli.options import seconds_of as seconds_of
    from unrack.cli.options import write as write
    from unrack.cli.trace.trace import fit_record as fit_record
    from unrack.cli.trace.usage import SeriesFile as SeriesFile
    from unrack.cli.trace.usage import SeriesOptions as SeriesOptions
    from unrack.cli.trace.usage import read_series as read_series
    from unrack.facts import counted as counted
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
