"""A fabric that is a folder: the scheduler says what is attached, scripts on the nodes make it so.

The scheduler writes ``attached/NODE/JOB/OPERATION.json``. ``unrack-prolog`` reads it on the node, notes in
``connected/NODE/JOB/`` that the node uses it, and runs the site's command; ``unrack-epilog`` undoes that. Each of the
two sides writes its own note before it reads the other's, so that nothing is given away that a node still uses.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock

from unrack.live.fabric.attachment_files import AttachmentFiles
from unrack.live.fabric.contract import Attachment, FabricError
from unrack.live.fabric.names import checked
from unrack.live.fabric.steps import Between, go_on
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
        self._files = AttachmentFiles(folder)
        self.wake = Wake(folder / "wake")
        self.between = between
        self._guard = Lock()

    def attach(self, wanted: Attachment) -> None:
        """Write the file of an attachment.

        Raises
        ------
        FabricError
            Another holds a device, the operation attached something else, or the folder cannot be written to.
        """
        checked(wanted)
        try:
            with self._guard:
                self._files.refuse_if_held(wanted)
                kept = self._files.get(wanted.operation)
                if kept is None or not kept.whole:
                    self._files.put(wanted, whole=True)
                    self.between("written")
        except OSError as error:
            raise FabricError(f"attaching {wanted.operation}: {error}") from error

    def detach(self, operation: str) -> None:
        """Remove the file of an attachment, once the node does not use it any more.

        Raises
        ------
        FabricError
            The node still uses it: its epilog has not run, or not to its end. Or the folder cannot be written to.
        """
        try:
            with self._guard:
                one = self._files.withdraw(operation, self.between)
                if one is None:
                    return
                note = self._files.folder / "connected" / one.node / one.job / f"{operation}.json"
                if note.exists():
                    raise FabricError(f"{one.node} still uses {operation}: its epilog is to remove {note}")
                self._files.remove(one)
                self.between("removed")
        except OSError as error:
            raise FabricError(f"detaching {operation}: {error}") from error

    def state(self) -> list[Attachment]:
        """What is attached, or half undone, in order of operation."""
        try:
            with self._guard:
                return [kept.attachment for kept in self._files.all()]
        except OSError as error:
            raise FabricError(f"reading {self._files.folder}: {error}") from error
