"""Attachments on disk: a small file each, in a folder a node and a job, written by one process at a time.

::

    FOLDER/fabric.json                          says that this is such a folder
    FOLDER/attached/NODE/JOB/OPERATION.json     an attachment; "whole": false while it is made or undone
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from unrack.errors import InputError
from unrack.live.durable import make_folder, remove_file, sync_folder, write_file
from unrack.live.fabric.contract import Attachment, Between, FabricError
from unrack.live.fabric.holders import Holders
from unrack.live.fabric.names import AMOUNT_MAX, DEVICE, DEVICES_MAX, NAME

VERSION = 1
MARK = "fabric.json"
BYTES_MAX = 2**20

Name = Annotated[str, Field(pattern=f"^(?:{NAME.pattern})$")]


class _Content(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    version: Literal[1]
    operation: Name
    job: Name
    node: Name
    devices: list[str] = Field(min_length=1, max_length=DEVICES_MAX)
    amounts: dict[Name, Annotated[int, Field(ge=0, le=AMOUNT_MAX)]]
    whole: bool


class KeptAttachment(NamedTuple):
    """An attachment as it stands on disk; ``whole``: it may be used, and is neither being made nor undone."""

    attachment: Attachment
    whole: bool


class AttachmentFiles:
    """The files of a folder, which is made if it is not there.

    Raises
    ------
    InputError
        The folder cannot be used, or holds something else.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.holders = Holders()
        try:
            if folder.is_dir() and not (folder / MARK).exists() and any(folder.iterdir()):
                raise InputError(str(folder), f"a folder without {MARK}", "an empty folder, or one of a fabric")
            make_folder(folder / "attached")
            if not (folder / MARK).exists():
                write_file(folder / MARK, json.dumps({"format": "unrack-fabric", "version": VERSION}).encode())
            self._tidy()
            for kept in self.all():
                self.holders.put(kept.attachment)
        except OSError as error:
            raise InputError(str(folder), error.strerror or str(error), "a folder for attachments") from None

    def all(self) -> list[KeptAttachment]:
        """All that is on disk, in order of operation.

        Raises
        ------
        InputError
            A file holds something else than an attachment.
        """
        found = [_read(path) for path in self._paths()]
        return sorted((kept for kept in found if kept is not None), key=lambda kept: kept.attachment.operation)

    def get(self, operation: str) -> KeptAttachment | None:
        """The attachment of an operation, as it stands on disk, if this process knows of it."""
        known = self.holders.attachments.get(operation)
        kept = _read(self._path(known)) if known is not None else None
        if kept is None:  # the file was moved
            self.holders.drop(operation)
        return kept

    def find(self, operation: str) -> KeptAttachment | None:
        """The same, and also one that was put back: every folder is looked at, if need be."""
        kept = self.get(operation)
        if kept is None and NAME.fullmatch(operation):
            path = next((path for path in self._paths() if path.name == f"{operation}.json"), None)
            kept = None if path is None else _read(path)
            if kept is not None:
                self.holders.put(kept.attachment)
        return kept

    def refuse_if_held(self, wanted: Attachment) -> None:
        """Check that it may be attached beside what is.

        Raises
        ------
        FabricError
            The operation has attached something else, or a device is held.
        """
        known = self.get(wanted.operation)
        if known is not None and known.attachment != wanted:
            raise FabricError(f"operation {wanted.operation} attaches {known.attachment}, not {wanted}")
        for other in self.holders.in_the_way(wanted):
            if self.get(other.operation) is not None:
                both = sorted({*wanted.devices} & {*other.devices})
                raise FabricError(f"{both[0]} is held by job {other.job} on {other.node} ({other.operation})")

    def put(self, attachment: Attachment, whole: bool) -> None:
        """Write an attachment."""
        path = self._path(attachment)
        content = {
            "version": VERSION,
            "operation": attachment.operation,
            "job": attachment.job,
            "node": attachment.node,
            "devices": list(attachment.devices),
            "amounts": dict(attachment.amounts),
            "whole": whole,
        }
        make_folder(path.parent)
        write_file(path, json.dumps(content).encode() + b"\n")
        self.holders.put(attachment)

    def withdraw(self, operation: str, between: Between) -> Attachment | None:
        """Say that an attachment is not whole any more: no job begins to use it. ``None``: there is none."""
        kept = self.find(operation)
        if kept is None:
            return None
        if kept.whole:
            self.put(kept.attachment, whole=False)
            between("withdrawn")
        return kept.attachment

    def remove(self, attachment: Attachment) -> None:
        """Remove an attachment, and the folders that are empty without it."""
        path = self._path(attachment)
        remove_file(path)
        self.holders.drop(attachment.operation)
        remove_empty(path.parent, self.folder / "attached")

    def _path(self, attachment: Attachment) -> Path:
        return self.folder / "attached" / attachment.node / attachment.job / f"{attachment.operation}.json"

    def _paths(self) -> Iterator[Path]:
        for folder, _, names in os.walk(self.folder / "attached", onerror=_fail):
            yield from (Path(folder, name) for name in names if name.endswith(".json") and not name.startswith("."))

    def _tidy(self) -> None:
        """Remove what a write that was cut off has left."""
        for name, _, files in os.walk(self.folder / "attached", topdown=False, onerror=_fail):
            folder = Path(name)
            for file in files:
                if file.startswith(".") and file.endswith(".new"):
                    remove_file(folder / file)
            if folder != self.folder / "attached":
                remove_empty(folder, folder.parent)


def remove_empty(folder: Path, top: Path) -> None:
    """Remove a folder and those above it, below ``top``, as long as they are empty."""
    while folder != top:
        try:
            folder.rmdir()
        except FileNotFoundError:
            pass
        except OSError:  # not empty
            return
        folder = folder.parent
    with suppress(FileNotFoundError):
        sync_folder(top)


def _fail(error: OSError) -> None:
    """A folder that cannot be read is not an empty one; one that has gone is."""
    if not isinstance(error, FileNotFoundError):
        raise error


def _read(path: Path) -> KeptAttachment | None:
    try:
        with path.open("rb") as file:
            text = file.read(BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    want = f"an attachment as unrack wrote it; move the file away if nothing is attached to {path.parent.parent.name}"
    try:
        content = _Content.model_validate_json(text)
    except ValidationError as error:
        raise InputError(str(path), str(error.errors()[0]["msg"])[:200], want) from None
    one = Attachment(content.operation, content.job, content.node, tuple(content.devices), content.amounts)
    right_place = path.parts[-3:] == (one.node, one.job, f"{one.operation}.json")
    if not right_place or not all(DEVICE.fullmatch(device) for device in one.devices):
        raise InputError(str(path), "something else", want)
    return KeptAttachment(one, content.whole)
