"""The numbers of docs/fair-share.md."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unrack.cluster.spec import Cluster
from unrack.policy.priority.multifactor import fair_share, fair_tree, level_fair_share
from unrack.resources.site.installed import Site

PAGE = (Path(__file__).parents[3] / "docs" / "fair-share.md").read_text()


def test_the_example_of_the_page_has_its_numbers() -> None:
    told: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block, told)
    tree, used = told["tree"], told["used"]
    assert used[tree.rows()["physics", "ann"]] == pytest.approx(8 * told["DAY_US"] * told["usage"].decay.half_life_us
        / told["DAY_US"] / np.log(2) * (1 - 2 ** (-1 / 7)) / 2)  # fmt: skip
    amounts = {"ann": 60.0, "bob": 10.0, "cy": 20.0, "di": 10.0}
    used = np.array([amounts.get(name, 0.0) for name in tree.name])
    level, factor, classic = level_fair_share(tree, used), fair_tree(tree, used), fair_share(tree, used)
    rows = {name: row for row, name in enumerate(tree.name)}
    for name, printed, rank in re.findall(r"^\| (?:– )?(\w+) \|.*\| ([0-9.]+) \| ([0-9/]*) ?\|$", PAGE, re.MULTILINE):
        row = rows.pop(name)
        assert f"{level[row]:.2f}" == printed
        over, _, under = rank.partition("/")
        assert factor[row] == (int(over) / int(under or 1) if rank else 0)
    assert rows == {}
    found = {name: f"{value:.2f}" for name, value in zip(tree.name, classic.factor, strict=True)}
    assert (found["ann"], found["bob"], found["cy"]) == ("0.30", "0.48", "0.33")


def test_the_cluster_of_the_page_is_one() -> None:
    block = re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert block is not None
    site = Cluster.from_dict(tomllib.loads(block[1])).places.installed["site"]
    assert isinstance(site, Site)
    assert site.file.priority is not None
    assert set(re.findall(r"`(\w+)`", PAGE)) >= set(type(site.file.priority).model_fields)
