"""Reading and writing profiles; what is wrong is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from applications import drawn, pair, profile, worked

from unrack.errors import InputError, TraceError
from unrack.slowdown.contention.profile import ProfileSet
from unrack.slowdown.contention.profile_file import read_profiles, write_profiles

APPS = "app,name,nodes,run_s,memory_mb,remote_mb_s,local_mb_s,reads,remote_speed\n4,mg,1,60,1000.5,500,900,75,0.8\n"
HEAD = "app,nodes,reads,interfering,target,interfering_mb_s,speed\n"
CURVES = HEAD + "".join(
    f"4,1,{reads},1,{target},{x},{y}\n"
    for reads in (50, 100)
    for target, x, y in (("local", 0, 1), ("local", 900, 0.9), ("remote", 0, 0.8), ("remote", 900, 0.7))
)


def write(folder: Path, apps: str = APPS, curves: str = CURVES) -> Path:
    (folder / "apps.csv").write_text(apps)
    (folder / "curves.csv").write_text(curves)
    return folder


def test_a_set_is_read_back_as_it_was_written(tmp_path) -> None:
    for number, profiles in enumerate((worked(), drawn(3), drawn(5, apps=7))):
        write_profiles(profiles, tmp_path / str(number))
        found = read_profiles(tmp_path / str(number))
        assert found == profiles
        assert found.digest() == profiles.digest()


def test_the_two_layouts_say_the_same(tmp_path) -> None:
    tidy = read_profiles(write(tmp_path))
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "memory-apps.csv").write_text("mg,4,60,1,1000.5,500,900,75,0.8\n")
    lines = [line.split(",") for line in CURVES.splitlines()[1:]]
    rows = [f"{reads},MG.v2,{nodes},{x},{y},{app},{count},{int(target == 'local')}"
            for app, nodes, reads, count, target, x, y in lines]  # fmt: skip
    (bare / "memory-curves.csv").write_text("\n".join(rows))
    assert read_profiles(bare) == tidy
    assert read_profiles(bare / "memory-apps.csv", bare / "memory-curves.csv") == tidy
    assert read_profiles(bare, tmp_path / "curves.csv") == tidy


def test_memory_is_rounded_up_and_columns_may_stand_in_any_order(tmp_path) -> None:
    turned = "\n".join(",".join(reversed(line.split(","))) for line in APPS.splitlines())
    found = read_profiles(write(tmp_path, apps=turned))
    assert found == read_profiles(write(tmp_path))
    assert found[4][0].memory_mb == 1001


def test_curves_of_applications_without_a_profile_are_left_out_and_named(tmp_path) -> None:
    unmeasured = "8,1,50,1,remote,0,0\n8,1,50,1,remote,900,0.5\n"
    found = read_profiles(write(tmp_path, curves=CURVES + unmeasured))
    assert found.strangers == (8,)
    assert {curve.app for curve in found.curves} == {4}


def test_a_set_without_curves_is_fine(tmp_path) -> None:
    assert read_profiles(write(tmp_path, curves=HEAD)).fallbacks == (4,)


def test_speeds_above_1_are_kept(tmp_path) -> None:
    found = read_profiles(write(tmp_path, curves=CURVES.replace("900,0.9", "900,1.004")))
    assert found.families[4, 1][0].points == ((0.0, 1.0), (900.0, 1.004))


@pytest.mark.parametrize(
    ("old", "new", "line", "field"),
    [
        ("60,", "-60,", 2, "run_s"),
        ("60,", "soon,", 2, "run_s"),
        ("60,", "nan,", 2, "run_s"),
        ("4,mg,1", "4.5,mg,1", 2, "app"),
        ("4,mg,1", "4,mg,0", 2, "nodes"),
        (",75,", ",175,", 2, "reads"),
        (",0.8\n", ",0\n", 2, "remote_speed"),
        (",0.8\n", ",0.8\n4,again,1,60,1,1,1,75,1\n", 3, "app"),
        (",0.8\n", ",0.8,1\n", 2, ""),
        ("run_s", "runtime", 1, "header"),
    ],
)
def test_a_wrong_profile_is_refused_with_its_line_and_field(tmp_path, old, new, line, field) -> None:
    with pytest.raises(TraceError) as caught:
        read_profiles(write(tmp_path, apps=APPS.replace(old, new)))
    assert (caught.value.path, caught.value.line, caught.value.field) == (str(tmp_path / "apps.csv"), line, field)


@pytest.mark.parametrize(
    ("old", "new", "line", "field"),
    [
        ("4,1,50,1,local,900,0.9", "4,1,50,1,local,900,0", 3, "speed"),
        ("4,1,50,1,local,900,0.9", "4,1,50,1,local,900,2.5", 3, "speed"),
        ("4,1,50,1,local,900,0.9", "4,1,60,1,local,900,0.9", 3, "reads"),
        ("4,1,50,1,local,900,0.9", "4,1,50,2,local,900,0.9", 3, "interfering"),
        ("4,1,50,1,local,900,0.9", "4,1,50,1,far,900,0.9", 3, "target"),
        ("4,1,50,1,local,900,0.9", "4,1,50,1,local,-1,0.9", 3, "interfering_mb_s"),
        ("4,1,50,1,local,900,0.9", "4,1,50,1,local,0,0.9", 3, "interfering_mb_s"),
        ("4,1,50,1,local,900,0.9", "-4,1,50,1,local,900,0.9", 3, "app"),
        ("4,1,50,1,local,900,0.9\n", "", 2, ""),
        ("4,1,50,1,local,900,0.9", "4,1,50,1,local,900", 3, ""),
        ("target", "side", 1, "header"),
    ],
)
def test_a_wrong_curve_is_refused_with_its_line_and_field(tmp_path, old, new, line, field) -> None:
    with pytest.raises(TraceError) as caught:
        read_profiles(write(tmp_path, curves=CURVES.replace(old, new)))
    assert (caught.value.path, caught.value.line, caught.value.field) == (str(tmp_path / "curves.csv"), line, field)


def test_a_read_share_without_its_partner_is_refused(tmp_path) -> None:
    lonely = "".join(line for line in CURVES.splitlines(keepends=True) if ",100," not in line or "remote" in line)
    with pytest.raises(TraceError, match="no local curve for 100 % reads"):
        read_profiles(write(tmp_path, curves=lonely))
    lonely = "".join(line for line in CURVES.splitlines(keepends=True) if ",100," not in line or "local" in line)
    with pytest.raises(TraceError, match="no remote curve for 100 % reads"):
        read_profiles(write(tmp_path, curves=lonely))


def test_files_that_are_not_there_or_are_empty_are_refused(tmp_path) -> None:
    with pytest.raises(TraceError, match=r"no apps\.csv"):
        read_profiles(tmp_path)
    with pytest.raises(TraceError, match="one of curves"):
        read_profiles(write(tmp_path) / "apps.csv")
    with pytest.raises(TraceError, match="No such file"):
        read_profiles(tmp_path / "apps.csv", tmp_path / "none.csv")
    with pytest.raises(TraceError, match="no rows"):
        read_profiles(write(tmp_path, curves=""))
    (tmp_path / "curves.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TraceError, match="a CSV that can be read"):
        read_profiles(tmp_path)
    with pytest.raises(InputError, match="can be made"):
        write_profiles(worked(), tmp_path / "apps.csv")


def test_a_set_built_in_python_is_held_to_the_same_rules() -> None:
    curves = tuple(pair(1, 1, 1, (0.1, 0.1)))
    for profiles, found, want in (
        ((), (), "at least one"),
        ((profile(1), profile(1)), (), "one for each"),
        ((profile(1, run_s=float("nan")),), (), "a time above 0"),
        ((profile(2),), curves, "a profile of it"),
        ((profile(1),), (*curves, curves[0]), "one of each"),
        ((profile(1),), curves[:1], "50 and 100"),
        ((profile(1),), (curves[0]._replace(points=((0.0, 1.0),)), curves[1]), "at least two"),
        ((profile(1),), (curves[0]._replace(points=((5.0, 1.0), (0.0, 1.0))), curves[1]), "in order"),
    ):
        with pytest.raises(InputError, match=want):
            ProfileSet(profiles, found)


def test_the_digest_follows_what_was_measured_and_nothing_else() -> None:
    profiles = worked()
    turned = ProfileSet(profiles.profiles[::-1], profiles.curves[::-1], strangers=(99,))
    assert turned.digest() == profiles.digest()
    assert ProfileSet(profiles.profiles, profiles.curves[4:]).digest() != profiles.digest()


def test_a_set_is_indexed_by_application() -> None:
    profiles = worked()
    assert list(profiles) == [5, 9]
    assert [row.nodes for row in profiles[5]] == [1, 4, 8]
    assert 9 in profiles
    assert 7 not in profiles
    with pytest.raises(InputError, match="application"):
        profiles[7]
