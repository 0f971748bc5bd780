from __future__ import annotations

import time
from pathlib import Path

import pytest
from fabrics import attachment, fabric, is_clean
from hypothesis import given
from hypothesis import strategies as st
from tries import draws

from unrack.errors import InputError
from unrack.live.fabric.breaking import BreakingFabric, Breaks
from unrack.live.fabric.contract import Fabric, FabricError
from unrack.live.fabric.files.fabric import FileFabric
from unrack.live.fabric.ledger_only import LedgerOnly


def outcomes(one: Fabric, count: int = 60) -> list[str]:
    said = []
    for i in range(count):
        try:
            one.attach(attachment(f"op-{i}", devices=f"d{i}"))
            said.append("done")
        except FabricError as error:
            said.append(str(error).replace(f"op-{i}", "op"))
    return said


def test_the_seed_alone_decides_what_breaks() -> None:
    breaks = Breaks(seed=3, refuse=0.2, half=0.2, lose=0.2)
    assert outcomes(BreakingFabric(LedgerOnly(), breaks)) == outcomes(BreakingFabric(LedgerOnly(), breaks))
    other = outcomes(BreakingFabric(LedgerOnly(), Breaks(seed=4, refuse=0.2, half=0.2, lose=0.2)))
    assert other != outcomes(BreakingFabric(LedgerOnly(), breaks))
    assert 10 < other.count("done") < 40


def test_a_lost_answer_was_carried_out_and_a_refusal_was_not() -> None:
    lost, refused = LedgerOnly(), LedgerOnly()
    with pytest.raises(FabricError, match="lost"):
        BreakingFabric(lost, Breaks(seed=1, lose=1)).attach(attachment())
    with pytest.raises(FabricError, match="refused"):
        BreakingFabric(refused, Breaks(seed=1, refuse=1)).attach(attachment())
    assert lost.state() == [attachment()]
    assert refused.state() == []


def test_half_an_operation_leaves_something_and_asking_again_finishes_it(tmp_path: Path) -> None:
    one = BreakingFabric(fabric("loop", tmp_path / "f"), Breaks(seed=1, half=1, often=2))
    for _ in range(2):
        with pytest.raises(FabricError, match="drill"):
            one.attach(attachment(devices="d1 d2"))
        assert one.state() == [attachment(devices="d1 d2")]
    one.attach(attachment(devices="d1 d2"))
    for _ in range(2):
        with pytest.raises(FabricError, match="drill"):
            one.detach("op-1")
    one.detach("op-1")
    assert is_clean(tmp_path / "f")


@draws(30)
@given(seed=st.integers(0, 10**6))
def test_who_asks_until_it_is_done_ends_with_nothing_left(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    folder = tmp_path_factory.mktemp("drill") / "f"
    one = BreakingFabric(FileFabric(folder), Breaks(seed=seed, refuse=0.3, half=0.3, lose=0.3))

    def until_done(task: object) -> int:
        for attempt in range(10):
            try:
                task()  # type: ignore[operator]
                return attempt
            except FabricError:
                continue
        pytest.fail("it broke more often than it may")

    tries = [until_done(lambda i=i: one.attach(attachment(f"op-{i}", devices=f"d{i}"))) for i in range(5)]
    assert len(one.state()) == 5
    tries += [until_done(lambda i=i: one.detach(f"op-{i}")) for i in range(5)]
    assert max(tries) <= 3
    assert is_clean(folder)


def test_a_slow_operation_takes_its_time() -> None:
    began = time.monotonic()
    BreakingFabric(LedgerOnly(), Breaks(seed=1, slow=1, slow_s=0.1)).attach(attachment())
    assert time.monotonic() - began >= 0.1


@pytest.mark.parametrize("shares", [{"half": 1.1}, {"half": 0.6, "lose": 0.6}, {"slow": -0.1}, {"slow_s": -1}])
def test_shares_that_are_none_are_refused(shares: dict[str, float]) -> None:
    with pytest.raises(InputError):
        Breaks(seed=1, **shares)  # type: ignore[arg-type]
