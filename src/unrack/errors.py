"""The error tree.

::

    UnrackError
    ├── InputError            what the user gave is wrong: exit code 2
    │   ├── StudyError        a study file
    │   ├── ClusterError      a cluster file, preset or argument
    │   ├── TraceError        a workload file; carries path, line, field
    │   ├── PolicyError       a policy's name, parameters, file or unmet needs
    │   └── MissingError      a feature whose library is not installed; says which extra has it
    └── RunError              the run itself failed: exit code 1
        ├── RefusedError           a policy decided something the cluster state does not allow
        └── FaultyPolicyError      the code of a user's policy raised something, or returned what is no answer

A fault is raised; "not now" is a :class:`unrack.reasons.Reason` and is returned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class UnrackError(Exception):
    """Any error that unrack raises on purpose."""

    exit_code = 1


class InputError(UnrackError):
    """What the user gave is wrong.

    Parameters
    ----------
    where
        Where it was found: a file, a line, a key, an argument.
    got
        What was found there.
    want
        What would have been accepted.
    """

    exit_code = 2

    def __init__(self, where: str, got: str, want: str) -> None:
        super().__init__(where, got, want)
        self.where = where
        self.got = got
        self.want = want

    def __str__(self) -> str:
        return f"{self.where}: got {self.got}, wanted {self.want}"


class StudyError(InputError):
    """A study file that cannot be run as it stands."""


class ClusterError(InputError):
    """A cluster that cannot be built as described."""


class PolicyError(InputError):
    """A policy that does not exist, has wrong parameters or needs what the input lacks."""


class TraceError(InputError):
    """A workload file that cannot be read.

    Parameters
    ----------
    path
        The file.
    line
        Its line, counted from 1, or ``None`` where the fault is not on one line.
    field
        The column or header at fault, or ``""``.
    got, want
        As in :class:`InputError`.

    Attributes
    ----------
    rows
        Lines, counted from 1, that have this fault and could be left out one by one; empty: the file as a whole is at
        fault.
    """

    rows: tuple[int, ...] = ()

    def __init__(self, path: str, line: int | None, field: str, got: str, want: str) -> None:
        where = path
        if line is not None:
            where += f", line {line}"
        if field:
            where += f", {field}"
        super().__init__(where, got, want)
        self.path = path
        self.line = line
        self.field = field

    def __reduce__(self) -> tuple[type[TraceError], tuple[str, int | None, str, str, str]]:
        return (TraceError, (self.path, self.line, self.field, self.got, self.want))


class MissingError(InputError):
    """A feature whose library is not installed.

    Parameters
    ----------
    where
        What was to be done.
    library
        What it needs.
    extra
        The extra of unrack that installs it.
    """

    def __init__(self, where: str, library: str, extra: str) -> None:
        super().__init__(where, f"no {library} installed", f"pip install 'unrack[{extra}]'")
        self.library = library
        self.extra = extra

    def __reduce__(self) -> tuple[type[MissingError], tuple[str, str, str]]:
        return (MissingError, (self.where, self.library, self.extra))


class RunError(UnrackError):
    """A run that could not be finished."""


class RefusedError(RunError):
    """A decision that the cluster state does not allow; the state is unchanged."""


class FaultyPolicyError(RunError):
    """A user's policy raised something (which is the ``__cause__``), or returned what is no answer to its question."""


def first_fault(faults: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The one of a model's faults to tell the user: an unknown key before a missing one, as the one is often the other.

    Parameters
    ----------
    faults
        What pydantic's ``ValidationError.errors()`` returns; not empty.
    """
    return next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])


def got_and_want(fault: Mapping[str, Any], known: Sequence[str] = ()) -> tuple[str, str]:
    """What was got and what was wanted, of one fault of a model; ``known``: the keys that would have been accepted."""
    if fault["type"] == "extra_forbidden":
        return "an unknown key", f"one of {', '.join(known)}" if known else "a key that exists"
    if fault["type"] == "missing":
        return "nothing", "this key"
    if fault["type"] in ("union_tag_not_found", "union_tag_invalid"):
        key, kinds = str(fault["ctx"]["discriminator"]).strip("'"), fault["ctx"].get("expected_tags")
        return repr(fault["input"])[:120], f"a table with {key} = one of {kinds}" if kinds else f"a table with {key}"
    text = repr(fault["input"])
    if fault["type"] in ("model_attributes_type", "model_type", "dict_type"):
        return text[:120], "a table with keys"
    want = str(fault["msg"]).removeprefix("Value error, ").removeprefix("Input should be ").rpartition(" is not ")[2]
    return text if len(text) <= 120 else text[:117] + "...", want[:1].lower() + want[1:]
