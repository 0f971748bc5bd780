"""Machines from files of every known format, which is recognised by what stands in them; or presets by name."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

from unrack.errors import ClusterError
from unrack.resources.gpus.machines.machine import PRESETS, Machine, preset
from unrack.resources.gpus.machines.reading.from_file import machine_from
from unrack.resources.gpus.machines.reading.hwloc import is_xml, read_xml
from unrack.resources.gpus.machines.reading.numactl import is_hardware, read_hardware, with_nodes
from unrack.resources.gpus.machines.reading.nvidia_smi import is_matrix, read_matrix
from unrack.resources.gpus.machines.reading.words import Found, Socket, machine_of

KNOWN = "what nvidia-smi topo -m, numactl --hardware or lstopo --of xml prints, or a TOML file with a machine"
MOST_BYTES = 1 << 24


def read_machine(source: str | os.PathLike[str], cpus: str | os.PathLike[str] | None = None) -> Machine:
    """The machine in a file, or the preset of that name.

    Parameters
    ----------
    source
        A file, or one of :data:`unrack.resources.gpus.machines.machine.PRESETS` where there is no such file.
    cpus
        A file with what ``numactl --hardware`` printed, where ``source`` does not hold that too.

    Raises
    ------
    ClusterError
        The file cannot be read, is in no known format, or is wrong; with the line where there is one.

    Examples
    --------
    >>> read_machine("minsky").name
    'minsky'
    """
    name = os.fspath(source)
    if name in PRESETS and not Path(name).exists():
        if cpus is not None:
            raise ClusterError("--cpus", f"a file beside the preset {name}", "it beside what nvidia-smi printed")
        return preset(name)
    if not Path(name).exists() and os.sep not in name and "." not in name:
        raise ClusterError("machine", repr(name), f"a file, or one of {', '.join(PRESETS)}")
    more = None if cpus is None else _text(os.fspath(cpus))
    return machine_in(_text(name), name, Path(name).stem, more, "" if cpus is None else os.fspath(cpus))


def machine_in(
    text: str, where: str = "text", name: str = "machine", cpus: str | None = None, cpus_where: str = "--cpus"
) -> Machine:
    """The machine that a text describes.

    Parameters
    ----------
    text
        As of a file: see :func:`read_machine`.
    where, name
        What errors call the text; what to call the machine.
    cpus, cpus_where
        The output of ``numactl --hardware``, where ``text`` does not hold it, and what errors call it.

    Raises
    ------
    ClusterError
        As :func:`read_machine`.
    """
    if is_xml(text):
        return _without(cpus, machine_of(read_xml(text, where, name)))
    if is_matrix(text):
        found = read_matrix(text, where, name)
        if cpus is not None:
            return machine_of(with_nodes(found, read_hardware(cpus, cpus_where), cpus_where))
        return machine_of(with_nodes(found, read_hardware(text, where), where) if is_hardware(text) else found)
    if is_hardware(text):
        nodes = read_hardware(text, where)
        sockets = {node: Socket(own) for node, own in nodes.cpus.items()}
        return _without(cpus, machine_of(Found(name, 0, 0, sockets=sockets, apart=nodes.apart)))
    return _without(cpus, machine_from(_toml(text, where), where, name))


def _without(cpus: str | None, machine: Machine) -> Machine:
    if cpus is not None:
        raise ClusterError("--cpus", "a file beside one that says all of its CPUs", "it beside what nvidia-smi printed")
    return machine


def _toml(text: str, where: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        if where.endswith(".toml"):
            raise ClusterError(where, str(fault), "a TOML file") from None
        line = next((line.strip() for line in text.splitlines() if line.strip()), "nothing")
        raise ClusterError(where, repr(line[:60]), KNOWN) from None


def _text(path: str) -> str:
    try:
        with Path(path).expanduser().open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ClusterError(path, error.strerror or str(error), "a file that can be read") from None
    if len(content) > MOST_BYTES:
        raise ClusterError(path, f"more than {MOST_BYTES:,} bytes", KNOWN)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ClusterError(path, str(error), "text") from None
