"""That kernels are compiled is said, once, and by the processes that compile them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numba
import pytest

from unrack.cli.options import WORDS
from unrack.cli.study.run import ProgressBar
from unrack.jit import on_first_compile, telling_of_each
from unrack.kernels.parts import KernelCompiler
from unrack.study.runner import Progress, _Board

unkept = numba.njit(pipeline_class=KernelCompiler)
"""As ``compiled``, without machine code of an earlier run of the tests."""


def fresh(module: str) -> ModuleType:
    """A module with a kernel that nobody has compiled yet."""
    made = ModuleType(module)
    exec("def twice(x):\n    return 2 * x\n", made.__dict__)
    return made


def test_the_first_kernel_is_told_of_in_whatever_package_it_is_and_nothing_else_of_numba() -> None:
    told: list[int] = []
    on_first_compile(lambda: told.append(1))
    numba.njit(fresh("of_a_user").twice)(3)
    numba.njit(fresh("unrack.made_up").twice)(3)
    assert told == []
    for _ in range(2):
        unkept(fresh("of_another_package").twice)(3)
    assert told == [1]


def test_nobody_is_told_after_the_end_of_what_was_to_be_told_of() -> None:
    told: list[int] = []
    with telling_of_each(told.append):
        pass
    unkept(fresh("unrack.made_up").twice)(3)
    assert told == []
    with telling_of_each(told.append):
        unkept(fresh("unrack.made_up").twice)(3)
    assert told == [1, -1]


def test_the_begin_and_the_end_of_each_kernel_are_told_with_all_that_it_calls_as_one() -> None:
    changes: list[int] = []
    module = fresh("unrack.made_up")
    with telling_of_each(changes.append):
        inner = module.twice = unkept(module.twice)
        exec("def more(x):\n    return twice(x) + 1\n", module.__dict__)
        assert unkept(module.more)(3) == 7
        assert inner(2.5) == 5.0
    assert changes == [1, -1, 1, -1]


def test_a_board_that_compiles_passes_it_on() -> None:
    told: list[Progress] = []
    board = _Board([], [], told.append)
    board.tell()
    board.compiles()
    assert [one.compiling for one in told] == [False, True]
    board.compiles(1)
    assert (told[-1].compiling_now, told[-1].compiled) == (1, 0)
    board.compiles(-1)
    assert (told[-1].compiling_now, told[-1].compiled) == (0, 1)


def test_the_command_says_it_once_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar() as bar:
        for compiling in (False, True, True):
            bar.tell(Progress(0, 1, 0, 1, 0, compiling))
    assert capsys.readouterr().err == WORDS + "\n"
    assert ProgressBar(quiet=True).told is None


KERNEL = """
import sys, time
from pathlib import Path

from unrack.jit import compiled

@compiled
def total(x: int) -> int:
    found = 0
    for i in range(x):
        found += i
    return found

if __name__ == "__main__":
    here, name = Path(__file__).parent, sys.argv[1]
    (here / name).touch()
    while not all((here / other).exists() for other in "ab"):
        time.sleep(0.001)
    assert total(4) == 6
    print(sum(total.stats.cache_misses.values()))
"""


def test_of_two_processes_one_compiles_and_the_other_takes_what_it_kept(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(KERNEL)
    both = [
        subprocess.Popen([sys.executable, str(tmp_path / "kernels.py"), name], stdout=subprocess.PIPE, text=True)
        for name in "ab"
    ]
    compiled_by = [int(process.communicate(timeout=120)[0]) for process in both]
    assert sorted(compiled_by) == [0, 1]
    assert [process.returncode for process in both] == [0, 0]
