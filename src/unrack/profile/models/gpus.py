"""Factors of GPUs from the axis ``gpus``: at several sockets, and beside a copy on the same GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from unrack.profile.axes.gpus import GpusFile
from unrack.profile.profile import Profile
from unrack.resources.gpus.profiles import FACTORS, KIND_APART, KIND_BESIDE

_KINDS = {"spread": KIND_APART, "beside": KIND_BESIDE}


def gpu_files(profiles: Sequence[Profile]) -> dict[str, str]:
    """The CSV that ``gpus.profiles`` of a cluster reads, of applications with the axis; none: no file."""
    rows = []
    for profile in profiles:
        for axis in (axis for axis in profile.application.axes if isinstance(axis, GpusFile)):
            for one in profile.estimates(axis):
                kind = _KINDS[str(one.level)]
                other = profile.name if kind == KIND_BESIDE else ""
                rows.append(f"{kind},{profile.name},{other},{max(1.0, 1 / one.speed):.4f}")
    return {"gpus.csv": "\n".join([",".join(FACTORS), *rows, ""])} if rows else {}
