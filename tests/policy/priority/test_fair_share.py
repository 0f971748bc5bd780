"""Shares, the classic factor and Fair Tree: examples that were published, laws, and twins in exact numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_fair_share import classic, drawn, ranked

from unrack.errors import InputError
from unrack.policy.priority.multifactor import fair_share, fair_tree, level_fair_share, share_of_siblings
from unrack.policy.priority.tree import Associations, associations, from_columns, with_descendants

EXAMPLE = [
    {"name": "A", "shares": 40},
    {"name": "D", "shares": 60},
    {"name": "B", "parent": "A", "shares": 30, "users": ["1"]},
    {"name": "C", "parent": "A", "shares": 10, "users": ["2", "3"]},
    {"name": "E", "parent": "D", "shares": 25, "users": ["4"]},
    {"name": "F", "parent": "D", "shares": 35, "users": ["5"]},
]
"""Slurm's classic_fair_share.html, "Example"."""
USED = {"1": 0.2, "2": 0.25, "4": 0.25}


def used(tree: Associations, amounts: dict[str, float]) -> Any:
    return np.array([amounts.get(name, 0.0) for name in tree.name])


def by_name(tree: Associations, column: Any) -> dict[str, float]:
    return dict(zip(tree.name, column.tolist(), strict=True))


@st.composite
def trees(draw: st.DrawFn) -> tuple[Associations, list[int]]:
    """Trees with many equal shares and amounts, and some shares from parents; and what each row used."""
    parent, shares, is_user = [], [], []
    for row in range(draw(st.integers(0, 14))):
        accounts = [-1, *(i for i in range(row) if not is_user[i])]
        parent.append(draw(st.sampled_from(accounts)))
        shares.append(draw(st.sampled_from([-1, 0, 1, 1, 2, 3])))
        is_user.append(draw(st.booleans()))
    amounts = [draw(st.integers(0, 3)) if user else 0 for user in is_user]
    columns = np.array(parent, np.int64), np.array(shares, np.int64), np.array(is_user, np.bool_)
    return from_columns(tuple(map(str, range(len(parent)))), *columns), amounts


def test_parents_come_before_children_in_whatever_order_accounts_are_given() -> None:
    tree = associations([EXAMPLE[i] for i in (5, 2, 0, 3, 1, 4)])
    assert tree.name == ("A", "B", "1", "C", "2", "3", "D", "F", "5", "E", "4")
    assert tree.parent.tolist() == [-1, 0, 1, 0, 3, 3, -1, 6, 7, 6, 9]
    assert tree.rows()["C", "3"] == 5
    assert tree.rows()["C", ""] == 3


@pytest.mark.parametrize(
    ("accounts", "says"),
    [
        ([{"name": "a", "shares": -1}], "0.shares: got -1"),
        ([{"name": "a", "users": [{"name": "x", "shares": 1.5}]}], "0.users.0.shares: got 1.5"),
        ([{"name": "a", "share": 1}], "0.share: got an unknown key, wanted 'shares' perhaps"),
        ([{"name": "ab"}, {"name": "c", "parent": "aab"}], "1.parent: got 'aab', wanted 'ab' perhaps"),
        ([{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}], "a, b: in or below a circle"),
        ([{"name": "a"}, {"name": "a"}], "1.name: got 'a'"),
        ([{"name": "root", "shares": 2}], "0.name: got 'root'"),
        ([{"name": "root"}, {"name": "root"}], "1.name: got 'root'"),
        ([{"name": "a", "users": ["x", {"name": "x"}]}], "each user once"),
    ],
)
def test_tables_that_are_no_tree_are_refused(accounts: list[dict[str, Any]], says: str) -> None:
    with pytest.raises(InputError) as error:
        associations(accounts)
    assert says in str(error.value)


def test_the_classic_example_of_the_documents() -> None:
    tree = associations(EXAMPLE)
    found = fair_share(tree, used(tree, USED))
    shares, usage, factor = (by_name(tree, column) for column in found)
    assert [shares[u] for u in "12345"] == pytest.approx([0.3, 0.05, 0.05, 0.25, 0.35])
    assert [shares[u] for u in "ABD"] == pytest.approx([0.4, 0.3, 0.6])
    # the document's amounts are parts of the machine, here of what was used, which is 0.7 of it
    assert [usage[u] * 0.7 for u in "ADBCE"] == pytest.approx([0.45, 0.25, 0.3875, 0.3, 0.25])
    assert [usage[u] * 0.7 for u in "1234"] == pytest.approx([0.3875, 0.275, 0.15, 0.25])
    assert usage["F"] * 0.7 == usage["5"] * 0.7 == pytest.approx(0.1458, abs=5e-5)
    published = [0.408479, 0.022097, 0.125, 0.5, 0.749154]
    assert [factor[u] ** 0.7 for u in "12345"] == pytest.approx(published, abs=1e-4)


def test_the_dampening_of_a_log_that_was_published() -> None:
    """University of Michigan, cluster Gollum: 2**(-0.111913/0.002453) with a dampening of 10 is 0.042337."""
    tree = associations([{"name": "a", "shares": 2453}, {"name": "b", "shares": 997547}])
    found = fair_share(tree, used(tree, {"a": 111913, "b": 888087}), dampening=10)
    assert by_name(tree, found.factor)["a"] == pytest.approx(0.042337, abs=2e-5)
    with pytest.raises(InputError, match="dampening"):
        fair_share(tree, used(tree, {}), 0)


def test_users_with_shares_of_their_parent_have_its_factor() -> None:
    users = [{"name": "x", "shares": "parent"}, {"name": "y", "shares": "parent"}]
    tree = associations([{"name": "a", "users": users}, {"name": "b", "shares": 3, "users": ["z"]}])
    found = by_name(tree, fair_share(tree, used(tree, {"x": 6, "z": 2})).factor)
    assert found["x"] == found["y"] == found["a"] == 2**-3.0


def test_an_account_with_shares_of_its_parent_counts_as_if_it_was_not_there() -> None:
    flat = associations([{"name": "a", "users": ["x", "y", {"name": "z", "shares": 2}]}])
    deep = associations(
        [
            {"name": "a", "users": ["x"]},
            {"name": "b", "parent": "a", "shares": "parent", "users": ["y"]},
            {"name": "c", "parent": "b", "shares": "parent", "users": [{"name": "z", "shares": 2}]},
        ]
    )
    amounts = {"x": 1.0, "y": 2.0, "z": 3.0}
    for formula in (lambda tree, use: fair_share(tree, use).factor, fair_tree):
        plain, nested = (by_name(tree, formula(tree, used(tree, amounts))) for tree in (flat, deep))
        assert {user: nested[user] for user in "xyz"} == {user: plain[user] for user in "xyz"}


def test_nobody_has_a_factor_below_1_before_anything_was_used() -> None:
    tree = associations(EXAMPLE)
    assert fair_share(tree, used(tree, {})).factor.tolist() == [1.0] * len(tree.name)
    assert fair_tree(tree, used(tree, {}))[tree.is_user].tolist() == [1.0] * 5


def test_level_fair_shares_that_sshare_printed() -> None:
    """EPFL, SCITAS: an account of 23 shares. 11 users with no usage are tied, then three follow one by one."""
    names = [f"none{i}" for i in range(11)]
    tree = associations(
        [
            {"name": "scitas", "users": ["eroche", "qubit", "rezzonic", *names]},
            {"name": "rest", "parent": "scitas", "shares": 9},
        ]
    )
    use = used(tree, {"eroche": 0.25, "qubit": 0.255072, "rezzonic": 0.494928})
    level, factor = by_name(tree, level_fair_share(tree, use)), by_name(tree, fair_tree(tree, use))
    three = ["eroche", "qubit", "rezzonic"]
    assert [level[user] for user in three] == pytest.approx([0.173913, 0.170455, 0.087848], abs=2e-6)
    assert [factor[user] * 14 for user in ["none0", "none10", *three]] == pytest.approx([14, 14, 3, 2, 1])


def test_the_account_below_the_first_common_one_decides() -> None:
    """Slurm's fair_tree.html, "Overview for End Users": Acct12 and Acct16 below Acct1, a user in each."""
    tree = associations(
        [
            {"name": "Acct1"},
            {"name": "Acct12", "parent": "Acct1", "users": ["UserA", "other"]},
            {"name": "Acct16", "parent": "Acct1", "users": ["UserB"]},
        ]
    )
    factor = by_name(tree, fair_tree(tree, used(tree, {"UserA": 1, "other": 9, "UserB": 8})))
    assert factor["UserB"] > factor["UserA"] > factor["other"]


def test_ties_of_accounts_are_merged_and_a_user_has_the_rank_of_the_first_in_a_tied_account() -> None:
    tree = associations(
        [
            {"name": "top"},
            {"name": "p", "parent": "top", "users": ["p1", "p2"]},
            {"name": "q", "parent": "top", "users": ["q1", "q2"]},
            {"name": "lone", "shares": 1, "users": ["last"]},
        ]
    )
    factor = by_name(tree, fair_tree(tree, used(tree, {"p1": 1, "p2": 3, "q1": 2, "q2": 2, "last": 9})))
    assert {u: round(f * 5) for u, f in factor.items() if f} == {"p1": 5, "q1": 4, "q2": 4, "p2": 2, "last": 1}
    tree = associations([{"name": "a", "users": ["u"]}, {"name": "b", "parent": "a", "users": ["v", "w"]}])
    factor = by_name(tree, fair_tree(tree, used(tree, {"u": 4, "v": 1, "w": 3})))
    assert {u: round(f * 3) for u, f in factor.items() if f} == {"u": 3, "v": 3, "w": 1}


@given(trees())
def test_both_formulas_are_those_of_the_twins(given_tree: tuple[Associations, list[int]]) -> None:
    tree, amounts = given_tree
    use = np.array(amounts, np.float64)
    root = drawn(tree.parent.tolist(), tree.shares.tolist(), tree.is_user.tolist(), amounts)
    plain = classic(root)
    assert fair_share(tree, use).factor.tolist() == pytest.approx([plain[i] for i in range(len(amounts))], abs=1e-12)
    ranks, users = ranked(root), np.flatnonzero(tree.is_user).tolist()
    assert fair_tree(tree, use)[users].tolist() == pytest.approx([ranks[user] / len(users) for user in users])


@given(trees())
def test_users_of_an_account_that_is_ahead_are_before_all_users_of_its_siblings(
    given_tree: tuple[Associations, list[int]],
) -> None:
    tree, amounts = given_tree
    use = np.array(amounts, np.float64)
    level, factor = level_fair_share(tree, use), fair_tree(tree, use)
    inside: list[set[int]] = [set() for _ in amounts]
    for user in np.flatnonzero(tree.is_user).tolist():
        row = user
        while row >= 0:
            inside[row].add(user)
            row = int(tree.above[row])
    counts = [row for row in range(len(amounts)) if tree.is_user[row] or tree.shares[row] >= 0]
    for ahead in counts:
        for behind in counts:
            if tree.above[ahead] == tree.above[behind] and level[ahead] > level[behind]:
                assert all(factor[a] > factor[b] for a in inside[ahead] for b in inside[behind])


@given(trees())
def test_shares_and_amounts_add_up(given_tree: tuple[Associations, list[int]]) -> None:
    tree, amounts = given_tree
    total = with_descendants(tree, np.array(amounts, np.float64))
    assert total[tree.parent < 0].sum() == sum(amounts)
    part, shares = share_of_siblings(tree), fair_share(tree, total).shares
    for account in {-1, *tree.above.tolist()}:
        below = np.flatnonzero((tree.above == account) & (tree.shares >= 0))
        if tree.shares[below].any():
            assert part[below].sum() == pytest.approx(1)
            assert shares[below].sum() == pytest.approx(shares[account] if account >= 0 else 1)


def test_factors_and_levels_are_those_that_a_real_slurm_printed() -> None:
    """``sshare -a -l`` of Slurm 22.05.8 after 300 jobs: amounts of core seconds, and a user of the root itself."""
    tree = associations(
        [
            {"name": "root", "users": ["root"]},
            {"name": "chem", "users": ["man"]},
            {"name": "phys", "shares": 3, "users": [{"name": "daemon", "shares": 2}, "games"]},
        ]
    )
    rows = tree.rows()
    amounts = np.zeros(len(rows))
    for key, raw in {("chem", "man"): 6635, ("phys", "daemon"): 6680, ("phys", "games"): 7521}.items():
        amounts[rows[key]] = raw
    factor, level = fair_tree(tree, amounts), level_fair_share(tree, amounts)
    users = [("root", "root"), ("phys", "daemon"), ("phys", "games"), ("chem", "man")]
    assert [factor[rows[key]] for key in users] == [1.0, 0.75, 0.5, 0.25]
    printed = {
        ("phys", "daemon"): 1.417263,
        ("phys", "games"): 0.629394,
        ("chem", ""): 0.628052,
        ("phys", ""): 0.880339,
    }
    assert [level[rows[key]] for key in printed] == pytest.approx(list(printed.values()), abs=1e-4)
    assert np.isinf(level[rows["root", "root"]])
