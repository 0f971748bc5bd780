"""A fabric that is a folder: the scheduler says what is attached, scripts on the nodes make it so.

The scheduler writes ``attached/NODE/JOB/OPERATION.json``. ``unrack-prolog`` reads it on the node, notes in
``connected/NODE/JOB/`` that the node uses it, and runs the site's command; ``unrack-epilog`` undoes that. Each of the
two sides writes its own note before it reads the other's, so that nothing is given away that a node still uses.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from unrack.live.fabric.attachment_files import AttachmentFiles
from unrack.live.fabric.contract import Attachment, Between, FabricError, go_on
from unrack.live.fabric.names import checked
from unrack.live.wake import Wake


class FileFabric:
    """Attachments as files of a folder.

    Parameters
    ----------
    folder
        Where; the same on all nodes, as by NFS.
    between
        Called between steps, for tests and drills.

    Attributes
    ----------
    wake
        Changes when a node says that a job has ended.
    """

    def __init__(self, folder: Path, between: Between = go_on) -> None:
        self.files = AttachmentFiles(folder)
        self.wake = Wake(folder / "wake")
        self.between = between
        self._guard = Lock()

    def attach(self, wanted: Attachment) -> None:
        """Write the file of an attachment, and make what stands for its devices; what is there already stays.

        Raises
        ------
        FabricError
            Another holds a device, the operation attached something else, or a step failed.
        """
        checked(wanted)
        with self._at_work(f"attaching {wanted.operation}"):
            self.files.refuse_if_held(wanted)
            self.make(wanted)

    def detach(self, operation: str) -> None:
        """Undo that, once the node does not use it any more.

        Raises
        ------
        FabricError
            It is in use, or a step failed.
        """
        with self._at_work(f"detaching {operation}"):
            one = self.files.withdraw(operation, self.between)
            if one is not None:
                self.unmake(one)
                self.files.remove(one)
                self.between("removed")

    def state(self) -> list[Attachment]:
        """What is attached, or half so, in order of operation."""
        with self._at_work(f"reading {self.files.folder}"):
            return [kept.attachment for kept in self.files.all()]

    def make(self, wanted: Attachment) -> None:
        """Make what was found not to be held."""
        kept = self.files.get(wanted.operation)
        if kept is None or not kept.whole:
            self.files.put(wanted, whole=True)
            self.between("written")

    def unmake(self, one: Attachment) -> None:
        """Unmake all but the file; refused as long as the node's epilog has not run to its end."""
        note = self.files.folder / "connected" / one.node / one.job / f"{one.operation}.json"
        if note.exists():
            raise FabricError(f"{one.node} still uses {one.operation}: its epilog is to remove {note}")

    @contextmanager
    def _at_work(self, what: str) -> Iterator[None]:
        try:
            with self._guard:
                yield
        except OSError as error:
            raise FabricError(f"{what}: {error}") from error
