"""Site files: every key has bounds and a row in the documentation, and a wrong one is refused with its line."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import draws

from unrack.cluster.spec import Cluster
from unrack.errors import InputError
from unrack.live.additions import ClusterAdditions
from unrack.live.driver.service.tables import JournalTable, LogTable, MetricsTable, OnPolicyFault
from unrack.live.slurm.adapter.seen import Take, not_now
from unrack.live.slurm.reading import SlurmJob
from unrack.live.slurm.site import Site
from unrack.live.slurm.site.tables import SiteTable
from unrack.live.watch.address import Address
from unrack.resources.table import RESOURCES

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "slurm" / "site.toml"


def site(text: str, folder: Path) -> Site:
    (folder / "site.toml").write_text(text)
    return Site.load(folder / "site.toml")


def test_the_example_is_a_site() -> None:
    found = Site.load(EXAMPLE)
    assert found.partitions == ["batch"]
    assert found.policy_spec.make().name == "easy"
    assert (found.poll_us, found.poll_slowest_us, found.start_timeout_us) == (200_000, 2_000_000, 120_000_000)
    assert (found.state, found.wake) == (Path("/var/lib/unrack"), Path("/var/lib/unrack/wake"))
    assert found.metrics.address == Address("127.0.0.1", 9641)
    names = [f"n{i}" for i in range(1, 17)]
    nodes = [{"count": 8, "cores": 8, "rack": found.additions.rack_of(name), "name": name} for name in ("n1", "n9")]
    cluster = Cluster.from_dict({"nodes": nodes, **found.additions.keys(names)})
    assert [pool.name for pool in cluster.devices.pools] == ["nvme-r1", "nvme-r2"]
    assert cluster.devices.reach.sum(axis=1).tolist() == [8, 8]


def test_only_the_partitions_are_needed(tmp_path: Path) -> None:
    found = site('partitions = ["a", "b.c-d_1"]', tmp_path)
    assert (found.policy_spec.name, found.take, found.on_policy_fault) == ("easy", Take.BY_ADMIN, OnPolicyFault.FCFS)
    assert (found.fabric, found.performance_models, found.additions.keys(["n1"])) == ({"kind": "none"}, (), {})
    assert found.journal.snapshot_every_mb == 64


def test_relative_paths_are_beside_the_file(tmp_path: Path) -> None:
    found = site('partitions = ["a"]\nstate = "here"\nwake = "bell"', tmp_path)
    assert (found.state, found.wake) == (tmp_path / "here", tmp_path / "bell")


def test_a_policy_and_models_are_written_as_in_studies(tmp_path: Path) -> None:
    text = (
        'partitions = ["a"]\npolicy = { name = "slurm", depth = 50 }\nmodels = ["smufin"]\n'
        '[[cluster.pools]]\nkind = "nvme"\ncount = 2\n'
        'quantities = { bandwidth_mb_s = "2 GB/s", capacity_mb = "600 GB" }'
    )
    found = site(text, tmp_path)
    assert dict(found.policy_spec.parameters) == {"depth": 50}
    assert len(found.performance_models) == 1
    shutil.copy(ROOT / "examples" / "my_policy.py", tmp_path / "my_policy.py")
    own = site('partitions = ["a"]\npolicy = { file = "my_policy.py:SHORT_AND_OLD" }', tmp_path)
    assert own.policy_spec.file.endswith("my_policy.py:SHORT_AND_OLD")


@pytest.mark.parametrize(
    ("text", "where", "got"),
    [
        ("", "partitions", "nothing"),
        ("partitions = []", "line 1, partitions", "[]"),
        ('partitions = "a"', "line 1, partitions", "'a'"),
        ('partitions = ["a", "a"]', "line 1, partitions", "['a', 'a']"),
        ('partitions = ["a\'; rm"]', "line 1, partitions[0]", '"a\'; rm"'),
        ('partitions = ["a"]\npartition = 3', "line 2, partition", "an unknown key"),
        ('partitions = ["a"]\npolicy = "esay"', "line 2, policy", "'esay'"),
        ('partitions = ["a"]\npolicy = "easy, world=base"', "line 2, policy", "the world 'base'"),
        ('partitions = ["a"]\nmodels = ["nothing"]', "line 2, models", "'nothing'"),
        ('partitions = ["a"]\npoll = "0 s"', "line 2, poll", "'0 s'"),
        ('partitions = ["a"]\npoll = true', "line 2, poll", "True"),
        ('partitions = ["a"]\npoll = nan', "line 2, poll", "nan"),
        ('partitions = ["a"]\nstart_timeout = "2 years"', "line 2, start_timeout", "'2 years'"),
        ('partitions = ["a"]\ntake = "all"', "line 2, take", "'all'"),
        ('partitions = ["a"]\nstate = ""', "line 2, state", "''"),
        ('partitions = ["a"]\nstate = "a\\nb"', "line 2, state", "'a\\nb'"),
        ('partitions = ["a"]\nuser_priority_most = 1.5', "line 2, user_priority_most", "1.5"),
        ('partitions = ["a"]\n[fabric]\nfolder = "x"', "line 2, fabric", "{'folder': 'x'}"),
        ('partitions = ["a"]\n[journal]\nsnapshot_every = "1 KB"', "line 3, journal.snapshot_every", "'1 KB'"),
        ('partitions = ["a"]\n[journal]\nkeep = -1', "line 3, journal.keep", "-1"),
        ('partitions = ["a"]\n[metrics]\naddress = "host.example:80"', "line 3, metrics.address", "'host.example:80'"),
        ('partitions = ["a"]\n[metrics]\nport = 80', "line 3, metrics.port", "an unknown key"),
        ('partitions = ["a"]\n[log]\nlevel = "loud"', "line 3, log.level", "'loud'"),
        ('partitions = ["a"]\n[cluster]\nnodes = []', "line 3, cluster.nodes", "this key"),
        ('partitions = ["a"]\n[cluster]\ntiers = []', "line 3, cluster.tiers", "an unknown key"),
        ('partitions = ["a"]\n[cluster]\nsite = {}', "line 3, cluster.site", "this key"),
        ('partitions = ["a"]\n[cluster.racks]\nr1 = "n[1-"', "line 3, cluster.racks.r1", "'n[1-'"),
        ('partitions = ["a"]\n[cluster.racks]\nr1 = "n1"\nr2 = "n[1-2]"', "line 4, cluster.racks.r2", "'n1', which is"),
        ('partitions = ["a"]\n[cluster]\nlending = "some"', "line 3, cluster.lending", "'some'"),
        ('partitions = ["a"]\n[[cluster.pools]]\nkind = "x"', "cluster.pools[0].count", "nothing"),
        ('partitions = ["a"]\n[[cluster.pools]]\nkind = "x"\ncount = 1\nper = "rack"', "cluster", "'rack', and"),
        (
            'partitions = ["a"]\n[[cluster.pools]]\nkind = "x"\ncount = 1\nreach = ["0-3"]',
            "cluster",
            "the number '0-3'",
        ),
        ('partitions = ["a"]\n[[cluster.counted]]\nname = "x"\namount = 0', "cluster", "0"),
    ],
)
def test_a_wrong_key_or_value_is_refused_with_its_place(text: str, where: str, got: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        site(text, tmp_path)
    assert error.value.exit_code == 2
    assert "site.toml" in error.value.where
    assert where in error.value.where
    assert got in error.value.got


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ('poll = "5 s"\npoll_slowest = "1 s"', "a poll_slowest of poll or more"),
        ('[metrics]\naddress = "0.0.0.0:80"', "a loopback address such as"),
        ('command_timeout = "5 min"', "stalled_after of twice command_timeout"),
    ],
)
def test_keys_that_contradict_each_other_are_refused(text: str, want: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        site(f'partitions = ["a"]\n{text}', tmp_path)
    assert want in error.value.want


def test_other_machines_may_look_where_that_is_allowed(tmp_path: Path) -> None:
    text = 'partitions = ["a"]\n[metrics]\naddress = "0.0.0.0:9641"\nallow_remote = true'
    assert site(text, tmp_path).metrics.address == Address("0.0.0.0", 9641)
    assert site('partitions = ["a"]\n[metrics]\naddress = ""', tmp_path).metrics.address is None


def test_nodes_are_named_as_in_slurm_and_numbered_when_they_are_known(tmp_path: Path) -> None:
    found = site(
        'partitions = ["a"]\n[cluster]\nlending = "rack"\n[cluster.racks]\nr1 = "cn[01-03]"\nr2 = "cn[04-05],login"\n'
        '[cluster.domains]\nroof = ["cn[02,05]", "r2"]\n'
        '[cluster.failure_domains.feed]\nA = ["r1"]\nB = ["cn04", "cn05"]\n'
        '[[cluster.pools]]\nkind = "x"\ncount = 4\nreach = ["cn[04-05]", "roof"]\nhome = ["login"]\n',
        tmp_path,
    ).additions
    nodes = ["cn05", "cn04", "cn03", "cn02", "cn01", "login", "other"]
    keys = found.keys(nodes)
    assert keys["domains"] == {"roof": ["0", "3", "0-1", "5"]}
    assert keys["failure_domains"] == {"feed": {"A": ["r1"], "B": ["1", "0"]}}
    assert (keys["pools"][0]["reach"], keys["pools"][0]["home"]) == (["0-1", "roof"], ["5"])
    assert "racks" not in keys
    assert [found.rack_of(node) for node in nodes] == ["r2", "r2", "r1", "r1", "r1", "r2", None]
    with pytest.raises(InputError, match="cn01"):
        found.keys(["cn02", "cn03", "cn04", "cn05", "login"])


def test_a_node_that_slurm_does_not_have_is_refused_where_it_is_named(tmp_path: Path) -> None:
    found = site('partitions = ["a"]\n[[cluster.pools]]\nkind = "x"\ncount = 4\nreach = ["rackO"]', tmp_path).additions
    with pytest.raises(InputError, match=r"cluster\.pools\[0\]\.reach: got 'rackO', wanted a node that there is"):
        found.keys(["n1"])


def test_classes_of_nodes_are_parted_by_racks_and_what_the_site_adds_goes_behind(tmp_path: Path) -> None:
    found = Site.load(EXAMPLE).additions
    names = [*(f"n{i}" for i in range(5, 17)), "n1", "n2", "n3", "n4", "login"]
    content = {
        "name": "slurm", "nodes": [{"count": 12, "cores": 8, "name": "a"}, {"count": 5, "cores": 4, "name": "b"}],
        "pools": [{"kind": "gpu", "count": 2}],
    }  # fmt: skip
    made = found.joined(content, names)
    assert [(kind["count"], kind["cores"], kind["rack"]) for kind in made["nodes"]] == [
        (4, 8, "r1"), (8, 8, "r2"), (4, 4, "r1"), (1, 4, "other"),
    ]  # fmt: skip
    assert [pool["kind"] for pool in made["pools"]] == ["gpu", "nvme"]
    cluster = Cluster.from_dict(made)
    assert (len(cluster), sorted(cluster.rack_names)) == (17, ["other", "r1", "r2"])
    assert found.joined(content, names) == made
    assert "rack" not in content["nodes"][0]


HELD = {"state": "PENDING", "priority": 0, "partition": "a"}


@pytest.mark.parametrize(
    ("job", "why"),
    [
        ({**HELD, "reason": "JobHeldAdmin"}, ""),
        ({**HELD, "reason": "JobHeldUser"}, "held by its user"),
        ({**HELD, "reason": "JobHeldUser", "admin_comment": "unrack:"}, ""),
        ({**HELD, "reason": "JobHeldUser", "comment": "unrack: app=x"}, "held by its user"),
    ],
)
def test_jobs_that_the_script_held_are_taken_and_those_of_a_user_are_not(job: dict[str, Any], why: str) -> None:
    assert not_now(SlurmJob(1, **job), Take.BY_ADMIN, 0.0) == why
    assert not_now(SlurmJob(1, **job), Take.HELD, 0.0) == ""


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(st.characters(), max_size=10)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=5,
)
KEYS = [info.alias or name for name, info in SiteTable.model_fields.items()]
CLUSTER_KEYS = [*ClusterAdditions.model_fields, *RESOURCES]


@draws(300)
@given(
    st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=3),
    st.none() | st.dictionaries(st.sampled_from(CLUSTER_KEYS), VALUES, max_size=2),
)
def test_any_values_are_a_site_or_an_error_of_input(table: dict[str, Any], cluster: dict[str, Any] | None) -> None:
    whole = {"partitions": ["a"], **table, **({} if cluster is None else {"cluster": cluster})}
    try:
        assert Site.of(whole).partitions
    except InputError as error:
        assert error.where.startswith("site")  # noqa: PT017 (either is right)


@pytest.mark.parametrize(
    ("table", "title"),
    [
        (SiteTable, "## Keys"),
        (ClusterAdditions, "## `[cluster]`"),
        (JournalTable, "## `[journal]`"),
        (MetricsTable, "## `[metrics]`"),
        (LogTable, "## `[log]`"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_every_key_of_a_site_file_has_a_row_with_its_default(table: type[SiteTable], title: str) -> None:
    text = (ROOT / "docs" / "slurm-site.md").read_text().partition(f"\n{title}\n")[2]
    rows = [line.split("|") for line in re.split(r"\n## ", text)[0].splitlines() if line.startswith("| `")]
    described = {key: row for row in rows for key in re.findall(r"`\[?([a-z_]+)\]?`", row[1])}
    assert {info.alias or name for name, info in table.model_fields.items()} == set(described)
    assert all(len(row) == 5 and row[2].strip() and row[3].strip() for row in rows)


POOLS = {"pools": [{"kind": "nvme", "count": 2, "quantities": {"capacity_mb": "1 GB"}}]}


@pytest.mark.parametrize(
    ("policy", "more", "wanted"),
    [
        ("easy(extension=90 s)", {}, "extension=90 s.*wanted whole minutes"),
        ("easy(extension=5 min, extension_most=450 s)", {}, "wanted whole minutes"),
        ("conservative(extension=5 min)", {"cluster": POOLS}, "and pools, wanted either"),
        ("easy(extension=5 min)", {"poll_slowest": "30 s"}, "poll_slowest.*got 30 s.*wanted 10 s or less"),
        ("flow(extension=5 min)", {}, "a policy that is asked in rounds"),
    ],
)
def test_more_time_of_which_slurm_cannot_be_told_in_time_is_refused(
    policy: str, more: dict[str, Any], wanted: str
) -> None:
    with pytest.raises(InputError, match=wanted):
        Site.of({"partitions": ["a"], "policy": policy, **more})


@pytest.mark.parametrize("policy", ["easy(extension=5 min)", "conservative(extension=1 min, extension_most=1 h)"])
def test_a_policy_may_give_running_jobs_more_time(policy: str) -> None:
    assert Site.of({"partitions": ["a"], "policy": policy}).policy == policy
