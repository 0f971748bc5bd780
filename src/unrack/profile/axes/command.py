"""The axis ``command``: levels that commands of one's own set, such as an NVMe target's or a switch's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import ClassVar, Literal

from pydantic import Field

from unrack.errors import InputError, RunError
from unrack.profile.axes.axis import (
    UNKNOWN,
    AxisFile,
    AxisKind,
    Level,
    LevelNeeds,
    Reached,
    Rig,
    Stand,
    Usage,
    about,
    number,
)
from unrack.profile.machine.journal import MARK, Journal
from unrack.profile.machine.machine import Machine


class CommandFile(AxisFile):
    """Commands in which ``{level}`` stands for the level."""

    kind: Literal["command"]
    set: list[str] = Field(default=[], max_length=64)  # run before each run; ``{level}`` of an application's own: none
    clear: list[str] = Field(default=[], max_length=64)  # run after each run, also after a kill -9
    tell: list[str] = Field(default=[], max_length=64)  # prints the level that was reached
    grows: bool = False  # whether speed grows with the level

    unit: ClassVar[str] = "as the command has it"

    @property
    def falling(self) -> bool:
        """Whether speed falls as the level grows."""
        return not self.grows


class Commands:
    """Whatever they do."""

    name = "command"

    def lacks(self, machine: Machine, journal: Journal) -> str:
        """Nothing: what they need is theirs."""
        del machine, journal
        return ""

    @contextmanager
    def stand(self, axis: AxisFile, rig: Rig) -> Iterator[Stand]:
        """Nothing that levels share."""
        assert isinstance(axis, CommandFile)

        @contextmanager
        def at(level: Level, _: LevelNeeds) -> Iterator[LevelNeeds]:
            words = {"{level}": f"{number(level):.12g}"}

            def reached(usage: Usage) -> Reached:
                del usage
                if not axis.tell:
                    return UNKNOWN
                text = _said(_filled(axis.tell, words), rig).strip()
                try:
                    return about(float(text), number(level), "the command read")
                except ValueError:
                    raise InputError(f"axis {axis.label}, tell", repr(text[:100]), "a number") from None

            with ExitStack() as stack:
                if axis.clear:
                    stack.enter_context(rig.journal.made("command", *_filled(axis.clear, words)))
                if axis.set:
                    _said(_filled(axis.set, words), rig)
                yield LevelNeeds(words={"level": words["{level}"]}, reached=reached)

        yield at


def _filled(argv: Sequence[str], words: dict[str, str]) -> list[str]:
    return [part.replace("{level}", words["{level}"]) for part in argv]


def _said(argv: Sequence[str], rig: Rig) -> str:
    env = {**os.environ, MARK: rig.token}
    try:
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=600, check=False, close_fds=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RunError(f"{argv[0]}: {error}") from None
    if done.returncode:
        raise RunError(f"{' '.join(argv)}: exit code {done.returncode}: {done.stderr.strip()[-300:]}")
    return done.stdout


COMMAND = AxisKind("command", "levels that commands of your own set, read and clear", CommandFile, (Commands(),))
