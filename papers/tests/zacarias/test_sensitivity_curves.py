"""Pictures of the profiles of applications."""

from __future__ import annotations

import pytest

from unrack.errors import InputError
from unrack.slowdown import synthetic_profiles
from unrack_papers.zacarias.curves import chart, plot_profiles


def test_a_picture_has_a_panel_an_application_and_all_its_points(tmp_path) -> None:
    spec = chart(synthetic_profiles(), nodes=4)
    assert len(spec["facet"]["sort"]) == 12
    assert sum(row["point"] for row in spec["data"]["values"]) == 12 * 2 * (6 + 2)
    plot_profiles(synthetic_profiles(), tmp_path / "curves.svg", "quadratic")
    assert (tmp_path / "curves.svg").read_text().startswith("<svg")
    for path, nodes in ((tmp_path / "curves.pdf", None), (tmp_path / "none.svg", 5), (tmp_path / "no" / "a.svg", None)):
        with pytest.raises(InputError):
            plot_profiles(synthetic_profiles(), path, nodes=nodes)
