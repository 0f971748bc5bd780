"""A fabric of loop devices: each device of an attachment is a sparse file behind a loop device of this machine.

::

    FOLDER/attached/NODE/JOB/OPERATION.json     what is attached, or half attached
    FOLDER/backing/OPERATION/DEVICE             the file behind it, gone when it is detached, with what was on it
    FOLDER/devices/NODE/JOB/DEVICE              a link to /dev/loopN
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from unrack.errors import InputError
from unrack.live.durable import make_folder, remove_file, sync_folder
from unrack.live.fabric.attachment_files import remove_empty
from unrack.live.fabric.contract import Attachment, Between, FabricError, go_on
from unrack.live.fabric.files.fabric import FileFabric
from unrack.live.fabric.loop.losetup import device_of, losetup, set_up, take_down

CAPACITY = "capacity_mb"
MB = 2**20


class LoopFabric(FileFabric):
    """Loop devices as stand-ins for drives.

    A device that is shared is divided: each job has a loop device of its own, of the capacity that it has of it.

    Parameters
    ----------
    folder
        Where the files are that stand for drives.
    size_mb
        The size of a device, 1 or more.
    between
        Called between steps, for tests and drills.

    Raises
    ------
    InputError
        This machine has no loop devices for us, or the folder cannot be used.
    """

    def __init__(self, folder: Path, size_mb: int, between: Between = go_on) -> None:
        if size_mb < 1:
            raise InputError("size_mb", str(size_mb), "1 or more")
        self._losetup, self._size_mb = losetup(), size_mb
        super().__init__(folder, between)

    def make(self, wanted: Attachment) -> None:
        """Set up a loop device for each device, and the links to them."""
        self._refuse_if_too_much(wanted)
        self.files.put(wanted, whole=False)
        self.between("begun")
        for device, size_mb in zip(wanted.devices, self._sizes_mb(wanted), strict=True):
            self._make(wanted, device, size_mb)
        self.files.put(wanted, whole=True)
        self.between("whole")

    def unmake(self, one: Attachment) -> None:
        """Take down the loop devices, and remove their files."""
        for device in one.devices:
            self._unmake(one, device)

    def link(self, attachment: Attachment, device: str) -> Path:
        """The link to the loop device that stands for a device of an attachment."""
        return self.files.folder / "devices" / attachment.node / attachment.job / quote(device, safe="")

    def backing(self, attachment: Attachment, device: str) -> Path:
        """The file behind a device of an attachment."""
        return self.files.folder / "backing" / attachment.operation / quote(device, safe="")

    def _make(self, wanted: Attachment, device: str, size_mb: int) -> None:
        backing, link = self.backing(wanted, device), self.link(wanted, device)
        make_folder(backing.parent)
        with backing.open("ab") as file:
            file.truncate(size_mb * MB)
        self.between(f"file of {device}")
        name = device_of(self._losetup, backing) or set_up(self._losetup, backing)
        self.between(f"loop device of {device}")
        make_folder(link.parent)
        new = link.with_name(f".{link.name}.new")
        remove_file(new)
        new.symlink_to(name)
        new.replace(link)
        sync_folder(link.parent)
        self.between(f"link of {device}")

    def _unmake(self, one: Attachment, device: str) -> None:
        backing, link = self.backing(one, device), self.link(one, device)
        for path in (link, link.with_name(f".{link.name}.new")):
            remove_file(path)
        remove_empty(link.parent, self.files.folder)
        self.between(f"link of {device} removed")
        take_down(self._losetup, backing)
        self.between(f"loop device of {device} taken down")
        remove_file(backing)
        remove_empty(backing.parent, self.files.folder)

    def _sizes_mb(self, one: Attachment) -> list[int]:
        """The size of each device of an attachment: all of it, or an equal part of the capacity, at least 1 MB."""
        if CAPACITY not in one.amounts:
            return [self._size_mb] * len(one.devices)
        size, more = divmod(one.amounts[CAPACITY], len(one.devices))
        return [max(1, size + (i < more)) for i in range(len(one.devices))]

    def _refuse_if_too_much(self, wanted: Attachment) -> None:
        """Check that all shares of a device fit on it, and that no other operation has the same link."""
        for device, size_mb in zip(wanted.devices, self._sizes_mb(wanted), strict=True):
            others = [one for one in self.files.holders.of(device) if one.operation != wanted.operation]
            for one in others:
                if (one.node, one.job) == (wanted.node, wanted.job):
                    raise FabricError(f"job {wanted.job} has {device} on {wanted.node} already ({one.operation})")
            shares = [one for one in others if CAPACITY in one.amounts]
            held_mb = sum(self._sizes_mb(one)[one.devices.index(device)] for one in shares)
            if size_mb + (held_mb if CAPACITY in wanted.amounts else 0) > self._size_mb:
                raise FabricError(f"{device} has {self._size_mb - held_mb} MB left, {wanted.operation} wants {size_mb}")
