"""Parameters of the comprehensive batch model: those that come with the package, and files of others."""

from __future__ import annotations

import json
import os
import textwrap
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from unrack.errors import InputError, first_fault, got_and_want
from unrack.workload.formats.source import find
from unrack.workload.generate.batch.model import BatchModel

DEFAULT = "llnl-atlas"

PARAMETERS = {
    "llnl-atlas": "LLNL Atlas 2006-11, 1 152 nodes of 8 cores (Parallel Workloads Archive, 2.1-cln)",
    "kth-sp2": "KTH SP2 1996-97, 100 nodes (Parallel Workloads Archive, 2.1-cln)",
    "cirne-anl": "1 838 jobs on 1 024 nodes that the original generator drew, half of their node-hours by large jobs",
}
"""Name → what the parameters were fitted to; ``docs/file-formats.md`` has the commands."""


def batch_parameters(which: str | os.PathLike[str] | Mapping[str, Any] | None = None) -> BatchModel:
    """The parameters of that name, of that TOML file, or in that table.

    Parameters
    ----------
    which
        A key of :data:`PARAMETERS` (default: :data:`DEFAULT`), a path, or the keys of
        :class:`unrack.workload.generate.batch.model.BatchModel`.

    Raises
    ------
    InputError
        There is no such file, or it does not hold parameters of the model.

    Examples
    --------
    >>> batch_parameters("kth-sp2").sizes.nodes
    100
    """
    if which is None:
        which = DEFAULT
    if isinstance(which, Mapping):
        return _checked(which, "parameters")
    name = os.fspath(which)
    if name in PARAMETERS:
        text = resources.files("unrack.workload").joinpath("fitted", f"{name}.toml").read_text(encoding="utf-8")
        return _checked(tomllib.loads(text), name)
    if not name.endswith(".toml"):
        raise InputError("parameters", repr(name), f"a file that ends in .toml, or one of {', '.join(PARAMETERS)}")
    try:
        content = tomllib.loads(Path(find(name)).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(name, error.strerror or str(error), "a file that can be read") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(name, str(error), "a TOML file") from None
    return _checked(content, name)


def written(model: BatchModel, made_by: str = "") -> str:
    """The text of a TOML file with the parameters.

    Parameters
    ----------
    model
        The parameters.
    made_by
        A comment for its first line.
    """
    content = model.model_dump(mode="json", exclude_none=True)
    lines = [f"# {made_by}"] if made_by else []
    lines += [_line(key, value) for key, value in content.items() if not isinstance(value, dict)]
    for key, table in content.items():
        if isinstance(table, dict):
            lines += ["", f"[{key}]", *(_line(name, value) for name, value in table.items())]
    return "\n".join(lines) + "\n"


def _line(key: str, value: Any) -> str:
    if isinstance(value, list) and isinstance(value[0], list):
        rows = "".join(f"    {json.dumps(row)},\n" for row in value)
        return f"{key} = [\n{rows}]"
    if isinstance(value, list):
        numbers = textwrap.fill(", ".join(map(str, value)), 112, initial_indent="    ", subsequent_indent="    ")
        return f"{key} = [\n{numbers},\n]"
    return f"{key} = {json.dumps(value)}"


def _checked(content: Mapping[str, Any], where: str) -> BatchModel:
    try:
        return BatchModel.model_validate(content)
    except ValidationError as error:
        fault = first_fault(error.errors())
        key = ".".join(map(str, fault["loc"])) or "the whole"
        raise InputError(f"{where}, {key}", *got_and_want(fault)) from None
