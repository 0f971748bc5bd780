"""Tables that others add to: what unrack has itself, what is installed beside it, and what files of a study define.

An installed distribution names its extensions as entry points of the groups ``unrack.readers``, ``unrack.metrics`` and
so on, each ``NAME = "module:object"``. A file has a dictionary for each table: ``READERS = {"NAME": object}``. What is
installed is loaded when its table is asked for it, and what cannot be loaded stops only code that asks for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cache, partial
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from unrack.errors import InputError, nearest
from unrack.plugins.code import in_words, is_file, run_once, source_of

PREFIX = "unrack."
GROUPS = ("readers", "generators", "usages", "resources", "slowdowns", "metrics", "sections", "policies", "core_rules")
"""The tables that files may add to; distributions may also add to ``commands``."""
ON_REQUEST = ("slowdowns", "metrics", "sections")
"""Tables with entries that take part in every run: of installed ones those that a study names in ``plugins``."""
ELSEWHERE = {
    "commands": ("place", "reproduce", "scenarios", "tiles", "usage.fit", "usage.make"),
    "readers": ("dlrm", "minsky", "openb", "philly", "servers", "slurm"),
    "generators": ("rodinia_jobs", "scenario", "servers", "training_jobs"),
    "usages": ("google", "grizzly", "toml"),
    "core_rules": ("best", "quick", "first-fit"),
}
"""Names that the documentation speaks of and ``unrack-papers`` has."""
PAPERS = "pip install 'unrack[papers]'"
V = TypeVar("V")


class Extension(NamedTuple):
    """Something that was added to a table: where it comes from, and what loads it."""

    home: str  # ``"unrack-papers 0.1.0"``, or the path of a file
    at: str  # ``"module:object"``, or the name of the dictionary in the file
    load: Callable[[], Any]  # gives the object


@cache
def installed() -> Mapping[str, Mapping[str, Sequence[Extension]]]:
    """Table → name → the extensions of that name of all installed distributions; nothing is loaded."""
    found: dict[str, dict[str, list[Extension]]] = {}
    seen = set[str]()
    for distribution in distributions():  # entry_points() of Python 3.11 gives no list of all groups
        for entry in distribution.entry_points:
            if entry.group.startswith(PREFIX):
                home = f"{distribution.name} {distribution.version}"
                key = f"{distribution.name}: {entry.group} {entry.name}"
                if key not in seen:  # the same distribution in two folders of the path: the first counts
                    seen.add(key)
                    group = found.setdefault(entry.group.removeprefix(PREFIX), {})
                    group.setdefault(entry.name, []).append(Extension(home, entry.value, entry.load))
    return found


_in_use: list[str] = []
"""Files and names of extensions, as a study or the command line gave them."""


def in_use() -> tuple[str, ...]:
    """The plug-ins in use now: files, and names of installed extensions."""
    return tuple(_in_use)


@contextmanager
def using(plugins: Sequence[str]) -> Iterator[None]:
    """Within it tables have what these files define, and installed metrics, sections and slowdowns so named take part.

    An InputError if a file cannot be run or adds to no table, or nothing of such a name is installed.
    """
    fresh = [plugin for plugin in dict.fromkeys(plugins) if plugin not in _in_use]
    for plugin in fresh:
        if is_file(plugin):
            _tables_of(plugin)
        elif plugin not in (known := [name for group in ON_REQUEST for name in installed().get(group, ())]):
            want = nearest(plugin, known) if known else "a file: nothing that takes part in runs is installed"
            raise InputError("plugins", repr(plugin), want)
    _in_use.extend(fresh)
    try:
        yield
    finally:
        del _in_use[len(_in_use) - len(fresh) :]


def identity_of(plugins: Sequence[str]) -> list[str]:
    """What the effect of plug-ins depends on: the content of files, the distributions and versions of the others."""
    others = {name: found for group in ON_REQUEST for name, found in installed().get(group, {}).items()}
    return [
        hashlib.sha256(source_of(plugin).content).hexdigest() if is_file(plugin)
        else f"{plugin} of {', '.join(one.home for one in others[plugin])}"
        for plugin in plugins
    ]  # fmt: skip


def beside(plugins: Sequence[str], folder: Path | None) -> list[str]:
    """Plug-ins of a study, with the paths of files that are in its folder."""
    there = folder if folder is not None else Path()
    return [str(there / one) if is_file(one) and (there / one).is_file() else one for one in plugins]


def _tables_of(path: str) -> Mapping[str, Mapping[str, Any]]:
    """Table → name → object, of a file."""
    module = run_once(path, "plug-in", InputError)
    found: dict[str, Mapping[str, Any]] = {}
    names = {group.upper(): group for group in GROUPS}
    for name, value in vars(module).items():
        if name in names:
            if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
                raise InputError(f"{path}, {name}", f"{value!r:.100}", 'a dictionary: {"NAME": object}')
            found[names[name]] = value
        elif name.isupper() and isinstance(value, Mapping) and (near := get_close_matches(name, names, 1, 0.8)):
            raise InputError(f"{path}, {name}", "a name that no table has", near[0])
    if not found:
        raise InputError(path, "a file that adds nothing", f"a dictionary called {', '.join(names)}")
    return found


def _itself(value: Any) -> Any:
    return value


class Table(Mapping[str, V], Generic[V]):
    """Names and what they stand for; iteration passes over what cannot be loaded.

    ``group``: one of :data:`GROUPS`; ``own``: what unrack has itself; ``made``: makes an entry of a name and the object
    that an extension gives; raises InputError where that is none.
    """

    def __init__(self, group: str, own: Mapping[str, V], made: Callable[[str, Any], V]) -> None:
        self.group, self.own, self._made = group, own, made
        self._kept: dict[str, V | InputError] = {}

    def __getitem__(self, name: str) -> V:
        """An entry; a KeyError if there is none, an InputError if there are several, or it cannot be loaded."""
        return self.own[name] if name in self.own else self._loaded(name, self.added()[name])

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in self.added()

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        yield from (name for name in self.added() if name not in self.own and not self.fault(name))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def added(self) -> dict[str, Sequence[Extension]]:
        """Name → the extensions of that name, of files in use and of installed distributions.

        An InputError if a file takes a name that there is already.
        """
        found = dict(installed().get(self.group, {}))
        for path in filter(is_file, _in_use):
            for name, value in _tables_of(path).get(self.group, {}).items():
                if name in self.own or name in found:
                    others = "unrack" if name in self.own else ", ".join(one.home for one in found[name])
                    raise InputError(f"{path}, {self.group.upper()}", f"{name!r}, which {others} has", "another name")
                found[name] = [Extension(path, self.group.upper(), partial(_itself, value))]
        return found

    def names(self) -> list[str]:
        """All names, also of what cannot be loaded; nothing is loaded."""
        return list(dict.fromkeys((*self.own, *self.added())))

    def fault(self, name: str) -> str:
        """What is wrong with an added entry; ``""``: nothing."""
        several = self.added()[name]
        if name in self.own:
            return f"unrack has {name!r} itself, which is used; {several[0].home} needs another name"
        try:
            self._loaded(name, several)
        except InputError as error:
            return str(error)
        return ""

    def distribution(self, name: str) -> str:
        """The distribution and its version that an entry comes from; ``""``: unrack itself, or a file."""
        found = "" if name in self.own else self.added()[name][0].home
        return "" if is_file(found) else found

    def taking_part(self) -> dict[str, V]:
        """The entries that take part in every run: those of files in use, and installed ones that are named."""
        asked = [name for name, (one, *_) in self.added().items() if name in _in_use or one.home in _in_use]
        return {name: self[name] for name in asked}

    def missing(self, name: str) -> str:
        """What to do about a name that there is not; ``""``: nothing."""
        return PAPERS if name in ELSEWHERE.get(self.group, ()) or not (self.own or self.added()) else ""

    def _loaded(self, name: str, several: Sequence[Extension]) -> V:
        if len(several) > 1:
            got = " and ".join(f"{name!r} of {one.home} ({one.at})" for one in several)
            raise InputError(self.group, got, "one of them: names differ")
        if is_file(several[0].home):
            return self._make(name, several[0])
        if name not in self._kept:
            try:
                self._kept[name] = self._make(name, several[0])
            except InputError as error:
                self._kept[name] = error
        kept = self._kept[name]
        if isinstance(kept, InputError):
            raise kept
        return kept

    def _make(self, name: str, one: Extension) -> V:
        try:
            return self._made(name, one.load())
        except Exception as error:  # the code of others may raise anything, and is no reason to stop
            where = f"{self.group}, {name!r} of {one.home} ({one.at})"
            raise InputError(where, in_words(error), "one that can be loaded") from error
