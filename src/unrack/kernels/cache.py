"""Where machine code is kept between processes: numba's cache, but for what stops a run there.

Numba looks for a folder that can be written: ``NUMBA_CACHE_DIR``, beside the code, the user's cache. In a container
without a home and with read-only code there is none, and numba raises; here a folder of the user alone is made where
temporary files go, and without that nothing is kept. A file that is damaged, of another version of numba or made from
other code counts as not there, and one that cannot be written is not kept: both cost a compilation, never a result.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from numba.core import caching

_TRIED = 10
_GONE = (AttributeError, ImportError)
"""What unpickling raises where a class has another place by now; damage is found before."""


@cache
def own_folder() -> Path | None:
    """A folder for temporary files that only this account can write to, the same in all processes; ``None``: none.

    What is kept is code that will be run: a folder that another account owns or may write to is passed over.
    """
    with suppress(OSError):  # there is no folder for temporary files either
        owner = os.getuid() if hasattr(os, "getuid") else 0
        for number in range(_TRIED):
            folder = Path(tempfile.gettempdir(), f"unrack-kernels-{owner}" + (f"-{number}" if number else ""))
            with suppress(FileExistsError):
                folder.mkdir(mode=0o700)
            found = folder.lstat()
            shared = hasattr(os, "getuid") and (found.st_uid != owner or found.st_mode & 0o077)
            if stat.S_ISDIR(found.st_mode) and not shared:
                return folder
    return None


def note() -> str:
    """What to tell a user where no usual folder can be written; empty where one can."""
    if not own_folder.cache_info().currsize:  # it was not looked for
        return ""
    folder = own_folder()
    where = f"is kept in {folder}" if folder else "is not kept: every process compiles for itself"
    return f"no folder for a cache can be written, machine code {where}; NUMBA_CACHE_DIR names a folder of your choice"


class OwnFolder(caching._CacheLocator):  # type: ignore[misc]
    """The last of the places that are looked at: :func:`own_folder`."""

    def __init__(self, py_func: Callable[..., object], py_file: str, folder: Path) -> None:
        self._py_file = py_file
        self._lineno = py_func.__code__.co_firstlineno
        self._folder = folder / self.get_suitable_cache_subpath(py_file)

    def get_cache_path(self) -> str:
        """A folder for each folder of code."""
        return str(self._folder)

    def get_source_stamp(self) -> str:
        """None: :mod:`unrack.kernels.stamp` does that."""
        return ""

    def get_disambiguator(self) -> str:
        """What tells functions of one name apart."""
        return str(self._lineno)

    @classmethod
    def from_function(cls, py_func: Callable[..., object], py_file: str) -> OwnFolder | None:
        """The place of a function; ``None``: there is none."""
        folder = own_folder()
        if folder is None:
            return None
        found = cls(py_func, py_file, folder)
        try:
            found.ensure_cache_path()
        except OSError:
            return None
        return found


class _Places(caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (*caching.CacheImpl._locator_classes, OwnFolder)


class KeptFile(caching.IndexDataCacheFile):  # type: ignore[misc]
    """Index and machine code in files that say what they are of, and show damage."""

    def _head(self) -> bytes:
        return f"unrack kernel, numba {self._version}, {self._source_stamp}\n".encode()

    def _sealed(self, content: bytes) -> bytes:
        return self._head() + hashlib.sha256(content).digest() + content

    def _opened(self, path: str) -> Any:
        """What was kept in a file; ``None``: it is of no use."""
        try:
            kept, head = Path(path).read_bytes(), self._head()
        except OSError:
            return None
        digest, content = kept[len(head) : len(head) + 32], kept[len(head) + 32 :]
        if not kept.startswith(head) or hashlib.sha256(content).digest() != digest:
            return None
        try:
            return pickle.loads(content)
        except _GONE:
            return None

    def _load_index(self) -> dict[Any, str]:
        return self._opened(self._index_path) or {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        with self._open_for_write(self._index_path) as file:
            file.write(self._sealed(self._dump(overloads)))

    def _load_data(self, name: str) -> Any:
        return self._opened(self._data_path(name))

    def _save_data(self, name: str, data: Any) -> None:
        with self._open_for_write(self._data_path(name)) as file:
            file.write(self._sealed(self._dump(data)))


class _Kept(caching.FunctionCache):  # type: ignore[misc]
    _impl_class = _Places

    def __init__(self, py_func: Callable[..., object]) -> None:
        super().__init__(py_func)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file: Any = KeptFile(self._cache_path, self._impl.filename_base, stamp)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        """What is kept also goes by how far it is optimised: tests ask for less than runs."""
        return super()._index_key(sig, codegen), os.environ.get("NUMBA_OPT")

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep machine code, if the disk takes it."""
        with suppress(OSError):
            super().save_overload(sig, data)


def kept(function: Callable[..., object]) -> Any:
    """What a dispatcher of numba takes for its cache."""
    try:
        return _Kept(function)
    except RuntimeError:  # of numba: "no locator available"
        return caching.NullCache()
