"""The error tree.

::

    UnrackError
    ├── InputError            what the user gave is wrong: exit code 2
    │   ├── StudyError        a study file
    │   ├── ClusterError      a cluster file, preset or argument
    │   ├── TraceError        a workload file; carries path, line, field
    │   ├── PolicyError       a policy's name, parameters, file or unmet needs
    │   └── MissingError      a feature without its library; says which extra has it
    └── RunError              the run itself failed: exit code 1
        ├── FailedRunsError        some runs of a study failed; carries the rows of the others
        ├── RefusedError           a policy decided something the cluster state does not allow
        └── FaultyPolicyError      the code of a user's policy raised something, or returned what is no answer

A fault is raised; "not now" is a :class:`unrack.reasons.Reason` and is returned.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from types import UnionType
from typing import Any

CHOICES = re.compile(r"(?P<before>|.*[:,] (?:or )?)one of:? (?P<names>[^;]*)(?P<after>;.*|)", re.DOTALL)
"""How every message lists what it would have accepted."""


def nearest(word: str, known: Iterable[str]) -> str:
    """What was wanted in place of a misspelt word: the nearest known one first, then all.

    Examples
    --------
    >>> nearest("polices", ["name", "policies"])
    "'policies' perhaps, or one of name, policies"
    """
    choices = list(known)
    listed = f"one of {', '.join(choices)}" if len(choices) > 1 else ", ".join(choices)
    close = _close(word, choices)
    return f"{close!r} perhaps, or {listed}" if close else listed


def _close(word: str, choices: Sequence[str]) -> str:
    """The choice that a word is most like; empty: it is like none, or is one of them."""
    lower = {choice.lower(): choice for choice in reversed(choices)}
    found = difflib.get_close_matches(word.lower(), lower, n=1, cutoff=0.6)
    return lower[found[0]] if found and lower[found[0]] != word else ""


def suggested(where: str, got: str, want: str) -> str:
    """What was wanted, with the nearest of the choices that it lists first if what was got seems to be misspelt.

    Examples
    --------
    >>> suggested("policy easy, order", "'sfj'", "one of fcfs, sjf")
    "'sjf' perhaps, or one of fcfs, sjf"
    >>> suggested("clusters, nodes.0.core", "an unknown key", "one of count, cores")
    "'cores' perhaps, or one of count, cores"
    >>> suggested("--run", "'easy(a=1, b=2)'", "one of easy(a=1, b=2) (seed 0), easy(a=1, b=2) (seed 1)")
    'one of easy(a=1, b=2) (seed 0), easy(a=1, b=2) (seed 1)'
    """
    listed = CHOICES.fullmatch(want)
    quoted = re.search(r"'([^']+)'", got)
    word = re.split(r"[., ]", where)[-1] if got == "an unknown key" else quoted[1] if quoted else ""
    if listed is None or not word or " perhaps, or " in want:  # it has been put first
        return want
    close = _close(word, [name.partition(" (")[0].strip("'") for name in re.split(r", (?![^(]*\))", listed["names"])])
    return f"{listed['before']}{close!r} perhaps, or {want[len(listed['before']) :]}" if close else want


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
        What would have been accepted; of choices that it lists ("one of a, b") the one that is nearest to what was got
        is put first.
    """

    exit_code = 2

    def __init__(self, where: str, got: str, want: str) -> None:
        super().__init__(where, got, want)
        self.where = where
        self.got = got
        self.want = suggested(where, got, want)

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
        Of each row that has this fault and could be left out: its lines, counted from 1; empty: the file as a whole is
        at fault.
    """

    rows: tuple[range, ...] = ()

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
    """A feature without its library: what was to be done, what it needs, the extra that installs it."""

    def __init__(self, where: str, library: str, extra: str) -> None:
        super().__init__(where, f"no {library} installed", f"pip install 'unrack[{extra}]'")
        self.library = library
        self.extra = extra

    def __reduce__(self) -> tuple[type[MissingError], tuple[str, str, str]]:
        return (MissingError, (self.where, self.library, self.extra))


class RunError(UnrackError):
    """A run that could not be finished."""


class FailedRunsError(RunError):
    """Some runs of a study failed, of what is said in words; the others are kept, with their summary.

    ``rows``: of ``summary.csv``, of the runs that did not fail; empty: all failed, and no summary was written.
    """

    def __init__(self, words: str, rows: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(words)
        self.rows = [dict(row) for row in rows]


class RefusedError(RunError):
    """A decision that the cluster state does not allow; the state is unchanged."""


class FaultyPolicyError(RunError):
    """A user's policy raised something (which is the ``__cause__``), or returned what is no answer to its question."""


def check_kinds(function: str, **arguments: tuple[object, type | UnionType]) -> None:
    """Refuse arguments that are of another kind, by an InputError that says if they are swapped.

    ``function``: what the caller called; ``arguments``: name → the value and the class that is wanted.
    """
    for name, (value, kind) in arguments.items():
        if isinstance(value, kind):
            continue
        want = f"a {getattr(kind, '__name__', kind)}"
        if any(isinstance(other, kind) and isinstance(value, theirs) for other, theirs in arguments.values()):
            want += f": the arguments are swapped, {function}({', '.join(arguments)})"
        elif isinstance(getattr(value, "jobs", None), kind):
            want += f": {name} = workload.jobs"
        got = repr(value) if isinstance(value, str) else f"a {type(value).__name__}" if value is not None else "None"
        raise InputError(f"{function}, {name}", f"{got:.120}", want)


def check_choice(where: str, value: object, known: Iterable[str], kind: type[InputError] = InputError) -> None:
    """Refuse what is none of the known words, by an InputError or another ``kind`` that lists them."""
    if value not in (known if isinstance(known, Mapping) else tuple(known)):
        raise kind(where, repr(value), f"one of {', '.join(known)}")


def first_fault(faults: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The one of a model's faults to tell the user: an unknown key before a missing one, as the one is often the other.

    ``faults``: what pydantic's ``ValidationError.errors()`` returns; not empty.
    """
    return next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])


_KINDS = {"int": "a whole number", "float": "a number", "string": "text", "bool": "true or false", "list": "a list"}
"""What a model takes of one kind, in words."""


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
    if fault["type"] in ("too_short", "too_long"):
        bound, key = ("least", "min_length") if fault["type"] == "too_short" else ("most", "max_length")
        count = fault["ctx"][key]
        return text[:120], f"at {bound} {count} {'entry' if count == 1 else 'entries'}"
    kind, _, how = fault["type"].partition("_")
    if kind in _KINDS and how in ("type", "parsing", "from_float"):
        return text[:120], _KINDS[kind]
    want = str(fault["msg"]).removeprefix("Value error, ").removeprefix("Input should be ").rpartition(" is not ")[2]
    return text if len(text) <= 120 else text[:117] + "...", want[:1].lower() + want[1:]
