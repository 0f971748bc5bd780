"""What every fabric of the table does alike."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from fabrics import LASTING, TABLES, attachment, fabric, is_clean, killed, loops
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from tries import draws

from unrack.errors import InputError
from unrack.live.fabric.contract import Attachment, FabricError
from unrack.live.fabric.table import FABRICS, make_fabric

KINDS = pytest.mark.parametrize("kind", FABRICS)
LASTING_KINDS = pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow) if kind == "loop" else kind for kind in LASTING]
)
"""A loop device takes its time, and there are a hundred places to be killed at."""


def test_every_kind_of_the_table_is_tested_here() -> None:
    assert set(TABLES) == set(FABRICS)


@KINDS
def test_what_is_attached_is_told_and_what_is_detached_is_gone(kind: str, tmp_path: Path) -> None:
    one = fabric(kind, tmp_path / "f")
    wanted = [attachment("b", devices="d1 rack/d2"), attachment("a", node="n2", devices="d3", mb=4)]
    for each in wanted:
        one.attach(each)
    assert one.state() == [wanted[1], wanted[0]]
    one.detach("b")
    assert one.state() == [wanted[1]]
    one.detach("a")
    assert one.state() == []
    assert kind == "none" or is_clean(tmp_path / "f")


@KINDS
def test_everything_may_be_asked_for_twice(kind: str, tmp_path: Path) -> None:
    one = fabric(kind, tmp_path / "f")
    for _ in range(2):
        one.attach(attachment())
    assert one.state() == [attachment()]
    for _ in range(2):
        one.detach("op-1")
        one.detach("never-heard-of")
        one.detach("../../etc")
    assert one.state() == []


@KINDS
def test_an_operation_that_attached_something_else_is_refused(kind: str, tmp_path: Path) -> None:
    one = fabric(kind, tmp_path / "f")
    one.attach(attachment())
    for other in (attachment(devices="d2"), attachment(node="n2"), attachment(job="8"), attachment(mb=1)):
        with pytest.raises(FabricError, match="op-1"):
            one.attach(other)
    assert one.state() == [attachment()]
    one.detach("op-1")


@KINDS
@pytest.mark.parametrize(("first", "second"), [(0, 0), (0, 2), (2, 0)])
def test_a_device_that_one_holds_whole_is_nobody_elses(kind: str, tmp_path: Path, first: int, second: int) -> None:
    one = fabric(kind, tmp_path / "f")
    one.attach(attachment("a", devices="d1 d2", mb=first))
    with pytest.raises(FabricError, match="a"):
        one.attach(attachment("b", job="8", devices="d3 d2", mb=second))
    assert one.state() == [attachment("a", devices="d1 d2", mb=first)]
    one.detach("a")
    one.attach(attachment("b", job="8", devices="d3 d2", mb=second))
    one.detach("b")


@KINDS
def test_a_device_may_be_shared(kind: str, tmp_path: Path) -> None:
    one = fabric(kind, tmp_path / "f")
    for i, operation in enumerate("abc"):
        one.attach(attachment(operation, job=f"{i}", mb=2))
    assert len(one.state()) == 3
    for operation in "bac":
        one.detach(operation)
    assert one.state() == []


@KINDS
@pytest.mark.parametrize(
    "changes",
    [
        {"operation": "../x"}, {"operation": ""}, {"operation": "-rf"}, {"operation": "a" * 101}, {"operation": "a\n"},
        {"job": "1;reboot"}, {"job": "."}, {"node": "n1/.."}, {"node": "é"},
        {"devices": ()}, {"devices": ("d", "d")}, {"devices": ("../d",)}, {"devices": ("a//b",)}, {"devices": ("-d",)},
        {"devices": ("$(id)",)}, {"devices": ("d\n",)}, {"devices": ("d" * 81,)},
        {"amounts": {"mb": -1}}, {"amounts": {"mb": True}}, {"amounts": {"": 1}}, {"amounts": {"mb": 2**63}},
    ],
    ids=str,
)  # fmt: skip
def test_names_that_are_not_of_the_contract_are_refused(kind: str, tmp_path: Path, changes: dict[str, object]) -> None:
    one = fabric(kind, tmp_path / "f")
    with pytest.raises(InputError, match="attachment"):
        one.attach(replace(attachment(), **changes))  # type: ignore[arg-type]
    assert one.state() == []


@KINDS
def test_of_many_threads_one_gets_the_device(kind: str, tmp_path: Path) -> None:
    one = fabric(kind, tmp_path / "f")

    def attempt(i: int) -> bool:
        try:
            one.attach(attachment(f"op-{i}", job=str(i)))
        except FabricError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(attempt, range(16)))
    assert sum(got) == 1
    assert [each.operation for each in one.state()] == [f"op-{got.index(True)}"]
    one.detach(f"op-{got.index(True)}")


@LASTING_KINDS
def test_what_is_attached_outlives_the_process(kind: str, tmp_path: Path) -> None:
    fabric(kind, tmp_path / "f").attach(attachment())
    again = fabric(kind, tmp_path / "f")
    assert again.state() == [attachment()]
    with pytest.raises(FabricError):
        again.attach(attachment("other"))
    again.attach(attachment())
    again.detach("op-1")
    assert is_clean(tmp_path / "f")


@LASTING_KINDS
@pytest.mark.parametrize("then", ["attach", "detach"])
def test_attach_killed_at_every_step_is_told_finished_or_undone(kind: str, tmp_path: Path, then: str) -> None:
    wanted = attachment(devices="d1 d2")
    for at in range(1, 100):
        folder = tmp_path / str(at)
        one = fabric(kind, folder)
        was_killed = killed(lambda one=one: one.attach(wanted), at)  # type: ignore[misc]
        again = fabric(kind, folder)
        assert again.state() == [wanted] or is_clean(folder)
        if then == "attach":
            again.attach(wanted)
            assert again.state() == [wanted]
        again.detach("op-1")
        assert again.state() == []
        assert is_clean(folder)
        if not was_killed:
            break
    assert 5 < at < 99


@pytest.mark.long
@LASTING_KINDS
@pytest.mark.parametrize("then", ["attach", "detach"])
def test_detach_killed_at_every_step_is_finished_or_made_good(kind: str, tmp_path: Path, then: str) -> None:
    wanted = attachment(devices="d1 d2", mb=4)
    for at in range(1, 100):
        folder = tmp_path / str(at)
        one = fabric(kind, folder)
        one.attach(wanted)
        was_killed = killed(lambda one=one: one.detach("op-1"), at)  # type: ignore[misc]
        again = fabric(kind, folder)
        assert again.state() == [wanted] or is_clean(folder)
        if then == "attach":
            again.attach(wanted)
            assert again.state() == [wanted]
        again.detach("op-1")
        assert is_clean(folder)
        if not was_killed:
            break
    assert 5 < at < 99


OPERATIONS = {
    one.operation: one
    for one in (
        attachment("a", "1", "n1", "d1 d2"),
        attachment("b", "2", "n2", "d2 d3"),
        attachment("c", "3", "n1", "d1", mb=4),
        attachment("d", "4", "n2", "d1", mb=3),
        attachment("e", "1", "n2", "d4"),
        attachment("f", "5", "n1", "d3 d4", mb=2),
    )
}
VERBS = st.sampled_from(["attach", "detach"])
CALLS = st.lists(st.tuples(VERBS, st.sampled_from(sorted(OPERATIONS)), st.integers(0, 30)), max_size=14)
"""What is asked for, and before which step the process is killed; 0: it is not."""


def clashes(one: Attachment, other: Attachment) -> bool:
    return bool({*one.devices} & {*other.devices}) and not (one.amounts and other.amounts)


@pytest.mark.long
@LASTING_KINDS
@draws(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=CALLS)
def test_no_sequence_of_calls_and_kills_attaches_twice_or_leaves_anything(
    kind: str, tmp_path_factory: pytest.TempPathFactory, calls: list[tuple[str, str, int]]
) -> None:
    folder = tmp_path_factory.mktemp("fabric") / "f"
    one = fabric(kind, folder)
    held: dict[str, Attachment] = {}
    for verb, name, at in calls:
        wanted = OPERATIONS[name]
        free = not any(clashes(wanted, other) for other in held.values() if other != wanted)

        def task(one=one, verb=verb, wanted=wanted) -> None:  # type: ignore[no-untyped-def]
            one.attach(wanted) if verb == "attach" else one.detach(wanted.operation)

        if verb == "attach" and not free:
            with pytest.raises(FabricError):
                task()
        elif at == 0:
            task()
        else:
            killed(task, at)
            one = fabric(kind, folder)  # another process goes on
        told = {each.operation: each for each in one.state()}
        if at == 0 or (verb == "attach" and not free):
            held = {**held, name: wanted} if verb == "attach" and free else held
            if verb == "detach":
                held.pop(name, None)
        else:
            held = {**held, name: wanted} if name in told else {key: held[key] for key in held if key != name}
        assert told == held
        assert len(loops(folder)) <= sum(len(each.devices) for each in held.values())
    for name in sorted(held):
        one.detach(name)
    assert one.state() == []
    assert is_clean(folder)


@pytest.mark.parametrize(
    ("table", "where"),
    [
        ({"kind": "rings"}, "kind"), ({"folder": "/x"}, "kind"), ({"kind": 3}, "kind"), ({"kind": "files"}, "folder"),
        ({"kind": "files", "folder": "here"}, "folder"), ({"kind": "files", "folder": "/x", "sise": 1}, "sise"),
        ({"kind": "none", "folder": "/x"}, "folder"), ({"kind": "loop", "folder": "/x", "size": "big"}, "size"),
        ({"kind": "drill", "seed": 1, "inner": {"kind": "rings"}}, "inner, kind"),
        ({"kind": "drill", "seed": 1, "inner": {}, "half": 2}, "half"),
    ],
)  # fmt: skip
def test_a_wrong_table_is_an_error_that_says_where(table: dict[str, object], where: str) -> None:
    with pytest.raises(InputError, match=where):
        make_fabric(table, "site.toml, [fabric]")


@LASTING_KINDS
def test_a_folder_of_something_else_is_left_alone(kind: str, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("all of it")
    with pytest.raises(InputError, match=r"fabric.json"):
        fabric(kind, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@LASTING_KINDS
def test_a_damaged_file_of_an_attachment_is_an_error_with_its_path(kind: str, tmp_path: Path) -> None:
    one = fabric(kind, tmp_path / "f")
    one.attach(attachment())
    (file,) = (tmp_path / "f" / "attached").rglob("*.json")
    content = file.read_text()
    for text in ("", content[:-9], content.replace("d1", "../d1"), content.replace("n1", "n2"), "[" * 10**5):
        file.write_text(text)
        with pytest.raises(InputError, match=r"op-1.json"):
            one.state()
    file.write_text(content)
    one.detach("op-1")


@LASTING_KINDS
def test_a_file_that_was_moved_away_and_put_back_is_believed(kind: str, tmp_path: Path) -> None:
    one = fabric(kind, tmp_path / "f")
    one.attach(attachment())
    (file,) = (tmp_path / "f" / "attached").rglob("*.json")
    content = file.read_bytes()
    file.unlink()
    assert one.state() == []
    one.attach(attachment("other", job="8", devices="d2"))
    one.detach("other")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    one.detach("op-1")
    assert is_clean(tmp_path / "f")
