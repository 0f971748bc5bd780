"""Selectors of devices: what CEL and Kubernetes say that they are, and what would cost too much."""

from __future__ import annotations

import time
from fractions import Fraction

import pytest

from unrack.live.kubernetes.devices.selectors import SelectorError, Selectors, described, version

DEVICE = described(
    "gpu.example.com",
    False,
    {"model": "A100", "n": 5, "other.com/x": True, "v": version("1.2.3-beta.2+build")},
    {"memory": Fraction(40 * 2**30), "share": Fraction(1, 2)},
)
OWN = 'device.attributes["gpu.example.com"]'
CAPACITY = 'device.capacity["gpu.example.com"]'


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ('device.driver == "gpu.example.com"', True),
        (f"{OWN}.model == 'A100' && {OWN}.n > 4", True),
        (f"{OWN}.model == 5", False),
        (f"{OWN}.n < 5.5", True),
        (f'{OWN}["model"] in ["H100", "A100"]', True),
        ('has(device.attributes["absent"].model)', False),
        (f"has({OWN}.model) && !has({OWN}.speed)", True),
        (f"{OWN}.speed == 1 || true", True),
        ('device.attributes["other.com"].x', True),
        ('"n" in device.attributes["gpu.example.com"]', True),
        (f'{CAPACITY}.memory.compareTo(quantity("10Gi")) >= 0', True),
        (f'{CAPACITY}.memory == quantity("40960Mi")', True),
        (f'{CAPACITY}.share.isLessThan(quantity("501m"))', True),
        (f'{OWN}.v.isGreaterThan(semver("1.2.3-beta.1"))', True),
        (f'{OWN}.v.isLessThan(semver("1.2.3"))', True),
        (f'{OWN}.v.isLessThan(semver("1.2.3-beta.10"))', True),
        (f'{OWN}.v == semver("1.2.3-beta.2")', True),
        (f"{OWN}.v.major() == 1", True),
        (f'cel.bind(own, {OWN}, own.n == 5 && own.model.startsWith("A"))', True),
        ('cel.bind(a, 1, cel.bind(b, a + 1, b == 2))', True),
        (f'{OWN}.all(key, key != "cel.bind(")', True),
        (f'{OWN}.model.matches("^A[0-9]{{2,3}}$")', True),
        (f'{OWN}.model.lowerAscii() == "a100"', True),
        ("!device.allowMultipleAllocations", True),
        (r'"a\"b".size() == 3', True),
    ],
)  # fmt: skip
def test_what_is_selected(expression: str, said: bool) -> None:
    assert Selectors().holds(expression, 1, DEVICE) is said


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        (f"{OWN}.speed == 1", "speed"),
        (f"{OWN}.n", "not true or false"),
        ("device.driver ==", "parse"),
        ("unknown == 1", "unknown"),
        (f'{CAPACITY}.memory.compareTo(quantity("much")) > 0', "quantity"),
        (f'{OWN}.model.compareTo(quantity("1")) > 0', "neither a quantity nor a version"),
        ("[1].all(a, [1].all(b, a == b))", "2 loops of 1"),
        ("[1].all(a, a in [" + "1, " * 100 + "1])", "may cost too much"),
        (" || ".join(["true"] * 1100), "may cost too much"),
        ("(" * 900 + "true" + ")" * 900, "parse"),
        (f'{OWN}.model.matches("(a{{1,1000}}){{1,1000}}")', "repeated too often"),
        ('device.driver == """x"""', "not kept"),
        ("true // that is all", "not kept"),
        ("x" * 11_000, "11000 characters"),
        ("cel.bind(a, 1)", "cel.bind"),
        ("1 / 0 == 1", "zero"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_at_once(expression: str, why: str) -> None:
    selectors, began = Selectors(), time.monotonic()
    for _ in range(2):  # and is so a second time
        with pytest.raises(SelectorError, match=why):
            selectors.holds(expression, 1, DEVICE)
    assert time.monotonic() - began < 5
