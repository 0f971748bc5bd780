"""That kernels are compiled is said, once, and by the processes that compile them."""

from __future__ import annotations

from types import ModuleType

import pytest

from unrack.cli.compiling import WORDS
from unrack.cli.run import _bar
from unrack.jit import on_first_compile
from unrack.study.runner import Progress, _Board


def fresh(module: str) -> ModuleType:
    """A module with a kernel that nobody has compiled yet."""
    made = ModuleType(module)
    exec("def twice(x):\n    return 2 * x\n", made.__dict__)
    return made


def test_the_first_kernel_of_this_package_is_told_of_and_no_other() -> None:
    import numba

    told: list[int] = []
    on_first_compile(lambda: told.append(1))
    numba.njit(fresh("of_a_user").twice)(3)
    assert told == []
    for _ in range(2):
        numba.njit(fresh("unrack.made_up").twice)(3)
    assert told == [1]


def test_a_board_that_compiles_passes_it_on() -> None:
    told: list[Progress] = []
    board = _Board([], [], told.append)
    board.tell()
    board.compiles()
    assert [one.compiling for one in told] == [False, True]


def test_the_command_says_it_once_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with _bar(quiet=False) as tell:
        for compiling in (False, True, True):
            tell(Progress(0, 1, 0, 1, 0, compiling))
    assert capsys.readouterr().err == WORDS + "\n"
    with _bar(quiet=True) as tell:
        assert tell is None
