"""``apps.csv`` and ``curves.csv`` of contention in memory, from the axis ``memory-bandwidth`` at 50 and 100 % reads."""

from __future__ import annotations

from collections.abc import Sequence

from unrack.errors import InputError
from unrack.profile.axes.far_memory import FarMemoryFile
from unrack.profile.axes.memory_bandwidth import MemoryBandwidthFile
from unrack.profile.profile import Profile
from unrack.slowdown.contention.profile import FASTEST, READS, Curve, ProfileSet
from unrack.slowdown.contention.profile import Profile as Row
from unrack.slowdown.contention.profile_file import profile_texts


def contention_files(profiles: Sequence[Profile]) -> dict[str, str]:
    """The files, of the applications that were measured beside traffic; none: no files.

    Raises
    ------
    InputError
        One lacks a share of reads, or what only its file can say.
    """
    rows: list[Row] = []
    curves: list[Curve] = []
    for profile in sorted(profiles, key=lambda one: one.name):
        axes: dict[int, MemoryBandwidthFile] = {
            axis.reads: axis for axis in profile.application.axes if isinstance(axis, MemoryBandwidthFile)
        }
        if not axes:
            continue
        if missing := [reads for reads in READS if reads not in axes]:
            got, want = f"no axis memory-bandwidth with reads = {missing[0]}", "one for 50 and one for 100 % reads"
            raise InputError(f"contention of {profile.name}", got, want)
        app = len(rows) + 1
        rows.append(_row(profile, app, profile.alone_s(axes[READS[0]])))
        for reads, axis in sorted(axes.items()):
            points = tuple((x, min(speed, FASTEST)) for x, speed in profile.fit(axis).points)
            curves.append(Curve(app, 1, reads, 1, False, points))
    return profile_texts(ProfileSet(tuple(rows), tuple(curves))) if rows else {}


def _row(profile: Profile, app: int, run_s: float) -> Row:
    keys = profile.application.file.contention
    if keys is None:
        want = "[contention] with local_mb_s and reads in its file: no axis here can tell what it draws"
        raise InputError(f"contention of {profile.name}", "nothing of its own traffic", want)
    far = next((axis for axis in profile.application.axes if isinstance(axis, FarMemoryFile)), None)
    remote_speed = keys.remote_speed
    if remote_speed is None and far is not None and 1.0 in far.levels:
        remote_speed = next(one.speed for one in profile.estimates(far) if one.level == 1.0)
    if remote_speed is None:
        want = "contention.remote_speed in its file, or the axis far-memory with a level of 1"
        raise InputError(f"contention of {profile.name}", "no speed with all memory remote", want)
    remote_mb_s = keys.local_mb_s * remote_speed if keys.remote_mb_s is None else keys.remote_mb_s
    return Row(app, profile.name, 1, run_s, profile.application.memory_mb, remote_mb_s, keys.local_mb_s, keys.reads,
               min(remote_speed, FASTEST))  # fmt: skip
