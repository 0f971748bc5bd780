"""The axis ``gpus``: an application's GPUs at one socket, at several, or shared with a copy of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import ClassVar, Literal

from pydantic import Field

from unrack.errors import RunError
from unrack.profile.axes.axis import AxisFile, AxisKind, Level, LevelNeeds, Reached, Rig, Stand
from unrack.profile.machine.journal import Journal
from unrack.profile.machine.machine import Machine

GPUS = Field(pattern=r"^\d+(,\d+)*$")


class GpusFile(AxisFile):
    """What it runs on: ``packed`` is the control."""

    kind: Literal["gpus"]
    levels: tuple[Literal["packed", "spread", "beside"], ...] = Field(min_length=1)  # type: ignore[assignment]
    packed: str = GPUS  # indices of GPUs at one socket, as for CUDA_VISIBLE_DEVICES
    spread: str = Field("", pattern=r"^(\d+(,\d+)*)?$")  # as many at several sockets
    mps: bool = True  # copies share by NVIDIA's Multi-Process Service; else by time slices
    error: None = None

    base: ClassVar[Level | None] = "packed"


class VisibleDevices:
    """CUDA_VISIBLE_DEVICES, and MPS where copies share. Tried on machines with one GPU, so that ``spread`` was not."""

    name = "visible-devices"

    def lacks(self, machine: Machine, journal: Journal) -> str:
        """Why there is none."""
        del journal
        return "" if machine.at("/dev/nvidiactl").exists() else "no NVIDIA GPU"

    @contextmanager
    def stand(self, axis: AxisFile, rig: Rig) -> Iterator[Stand]:
        """Nothing that levels share."""
        assert isinstance(axis, GpusFile)
        levels: tuple[Level, ...] = axis.levels
        if "spread" in levels and len(axis.spread.split(",")) != len(axis.packed.split(",")):
            raise RunError(f"axis {axis.label}: packed {axis.packed}, spread {axis.spread!r}; wanted as many GPUs")

        @contextmanager
        def at(level: Level, _: LevelNeeds) -> Iterator[LevelNeeds]:
            env = {"CUDA_VISIBLE_DEVICES": axis.spread if level == "spread" else axis.packed}
            copies = 2 if level == "beside" else 1
            with ExitStack() as stack:
                if copies > 1 and axis.mps:
                    env |= _served(stack, rig, axis.packed)
                yield LevelNeeds(env=env, copies=copies, reached=lambda _: Reached(None, 0.0, True, "by index"))

        yield at


def _served(stack: ExitStack, rig: Rig, gpus: str) -> dict[str, str]:
    """Start MPS for some GPUs, with folders of its own; what its clients need in their environment."""
    folder = rig.scratch / f"{rig.token}-mps"
    stack.enter_context(rig.journal.made("file", str(folder)))
    folder.mkdir()
    env = {"CUDA_MPS_PIPE_DIRECTORY": str(folder), "CUDA_MPS_LOG_DIRECTORY": str(folder)}
    settings = [f"{name}={value}" for name, value in env.items()]
    quit_ = f"echo quit | env {' '.join(settings)} nvidia-cuda-mps-control"
    stack.enter_context(rig.journal.made("command", "sh", "-c", quit_))
    rig.journal.called("env", *settings, f"CUDA_VISIBLE_DEVICES={gpus}", "nvidia-cuda-mps-control", "-d")
    return env | {"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(len(gpus.split(",")))))}


KIND = AxisKind("gpus", "GPUs at one socket, at several, or shared with a copy of it", GpusFile, (VisibleDevices(),))
