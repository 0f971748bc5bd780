from __future__ import annotations

import random
from itertools import combinations

import pytest

from unrack.errors import InputError
from unrack.live.machine.cores import choose_cores
from unrack.live.machine.pick import choose, total
from unrack.live.machine.plan import MachinePlan, WantedGpus, plan
from unrack.reasons import Code, Reason
from unrack.resources.gpus.machines.machine import PRESETS, Machine, preset, tree


def by_trying_all(machine: Machine, wanted: int, held: set[int]) -> tuple[int, ...]:
    free = [gpu for gpu in range(len(machine.gpus)) if gpu not in held]
    home = machine.socket.tolist()

    def key(gpus: tuple[int, ...]) -> tuple[object, ...]:
        crowd = sum(sum(home[one] == home[gpu] for one in free) for gpu in gpus)
        return total(machine, gpus), len({home[gpu] for gpu in gpus}), crowd, gpus

    return min(combinations(free, wanted), key=key)


@pytest.mark.parametrize("name", [name for name in PRESETS if name != "dgx-2"])
def test_the_choice_is_the_best_of_all_sets(name: str) -> None:
    machine, draw = preset(name), random.Random(7)
    count = len(machine.gpus)
    for _ in range(40):
        held = set(draw.sample(range(count), draw.randrange(count)))
        wanted = draw.randint(1, count - len(held))
        found = choose(machine, wanted, held)
        assert found is not None
        assert found.gpus == by_trying_all(machine, wanted, held)
        assert found.distance == total(machine, found.gpus)
        assert found.least == total(machine, by_trying_all(machine, wanted, set()))


def test_the_choice_is_the_best_on_machines_of_random_links() -> None:
    draw = random.Random(3)
    for _ in range(40):
        pairs = [pair for pair in combinations(range(7), 2) if draw.random() < 0.4]
        machine = tree("random", [[2, 1], [3, 1]], pairs)
        held = set(draw.sample(range(7), draw.randrange(4)))
        for wanted in range(1, 8 - len(held)):
            found = choose(machine, wanted, held)
            assert found is not None
            assert found.gpus == by_trying_all(machine, wanted, held)


def test_thirty_two_equal_gpus_are_chosen_from_at_once() -> None:
    machine = tree("large", [[8, 8], [8, 8]], nvswitch=True)
    found = choose(machine, 12, held={0})
    assert found is not None
    assert found.gpus == tuple(range(1, 13))  # the socket that is not whole any more


def test_one_gpu_is_taken_from_the_socket_with_the_fewest_free() -> None:
    assert choose(preset("minsky"), 1, held={2}) == ((3,), 0, 0)


def test_gpus_with_a_direct_link_go_before_those_that_are_on_one_switch_without() -> None:
    assert choose(preset("dgx-1"), 2, held={0}) == ((1, 2), 1, 1)
    found = choose(preset("pcie-8"), 2, held={0})
    assert found == ((2, 3), 2, 2)


def test_utility_is_the_least_distance_over_that_of_the_choice() -> None:
    found = choose(preset("minsky"), 2, held={1, 2})
    assert found == ((0, 3), 42, 1)
    assert found.utility == pytest.approx(1 / 42)
    assert choose(preset("minsky"), 1, held={1, 2}).utility == 1


def test_too_few_free_is_nothing_now_and_too_few_at_all_is_an_error() -> None:
    assert choose(preset("minsky"), 3, held={0, 1}) is None
    with pytest.raises(InputError, match="got 5, wanted 1 to 4"):
        choose(preset("minsky"), 5)


MACHINE = tree("two", [[2], [2]], [(0, 1), (2, 3)], cores=[range(8), range(8, 16)])


def test_cores_are_the_share_of_the_socket_that_nobody_holds() -> None:
    assert choose_cores(MACHINE, [0, 1]) == tuple(range(8))
    assert choose_cores(MACHINE, [2]) == (8, 9, 10, 11)
    assert choose_cores(MACHINE, [3], held={8, 9, 10, 11}) == (12, 13, 14, 15)
    assert choose_cores(MACHINE, [0, 1], held={0, 1, 2}) == (3, 4, 5, 6, 7)
    assert choose_cores(MACHINE, [1, 2]) == (0, 1, 2, 3, 8, 9, 10, 11)


def test_so_many_cores_as_are_asked_for_come_from_the_sockets_in_turn() -> None:
    assert choose_cores(MACHINE, [0], 3) == (0, 1, 2)
    assert choose_cores(MACHINE, [1, 2], 6) == (0, 1, 2, 8, 9, 10)
    assert choose_cores(MACHINE, [1, 2], 5, held={8, 9, 10, 11, 12, 13, 14}) == (0, 1, 2, 3, 15)


def test_cores_that_are_not_there_are_refused() -> None:
    assert choose_cores(MACHINE, [0], 9) == Reason(Code.TOO_BIG, "CPUs of socket 0", 9, 8)
    assert choose_cores(MACHINE, [0], 8, held={3}) == Reason(Code.NO_ROOM, "CPUs of socket 0", 8, 7)
    assert choose_cores(MACHINE, [0], held=set(range(8))) == Reason(Code.NO_ROOM, "CPUs of socket 0", 1, 0)


def test_cores_are_none_where_none_are_known_or_usable() -> None:
    assert choose_cores(preset("minsky"), [0]) == ()
    assert choose_cores(MACHINE, [2], usable={0, 1}) == ()
    assert choose_cores(MACHINE, [0], usable={0, 5, 9}) == (0,)


def test_a_plan_names_the_gpus_as_the_tools_of_the_system_do() -> None:
    found = plan(MACHINE, WantedGpus(2), held_gpus={0})
    assert isinstance(found, MachinePlan)
    assert found.environment == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "2,3"}
    assert found.sockets == (1,)


def test_a_plan_with_too_little_utility_is_refused_with_what_there_is() -> None:
    found = plan(MACHINE, WantedGpus(2, utility=0.5), held_gpus={0, 2})
    assert isinstance(found, Reason)
    assert "(1, 3) have utility 0.0238, wanted 0.5" in str(found)
    assert isinstance(plan(MACHINE, WantedGpus(2, utility=0.02), held_gpus={0, 2}), MachinePlan)
