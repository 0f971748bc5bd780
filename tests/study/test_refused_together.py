"""What does not go together is refused before the first run of a study, not by each run when its turn comes."""

from __future__ import annotations

from pathlib import Path

import pytest

from unrack.errors import UnrackError
from unrack.study.grid import load_study

STUDY = """
policies = ["fcfs", "{policy}"]
[[clusters]]
nodes = [{{ count = 4, cores = 8 }}]
{cluster}
[[workloads]]
trace = "jobs.csv"
"""
PLAIN = "id,submit,run,request,tasks,cores{more}\n1,0,100,100,2,1{one}\n2,0,100,100,2,1{two}\n"
POOL = '[[clusters.pools]]\nkind = "nvme"\ncount = 2\nquantities = { bandwidth_mb_s = 2000 }'
OFF = "[clusters.power]\nidle = 1\npeak = 2\nswitch_off = { after = 60, shutdown = 10, boot = 10 }"
STANDING = (
    '[clusters.site]\npreempt = { by = "qos", mode = "suspend" }\n'
    'qos = [{ name = "high", preempts = ["low"] }, { name = "low" }]'
)
LIMIT = '[clusters.site]\nlimits = [{ per = "user", amounts = { jobs = 3 } }]'
SIZES = ",min_tasks,max_tasks,speedup,flexibility,user"
STRETCHING = ",1,4,linear,malleable,ann"


@pytest.mark.parametrize(
    ("policy", "cluster", "more", "one", "said"),
    [
        ("easy(extension=5 min)", POOL, ",nvme.bandwidth_mb_s", ",500", "extension, and jobs with pooled devices"),
        ("easy(resizing=fpsma)", OFF, SIZES, STRETCHING, "nodes that are switched off"),
        ("easy(molding=earliest-end)", LIMIT, SIZES, STRETCHING, "several sizes under limits"),
        ("flow", STANDING, ",qos", ",low", "asked in rounds of its own"),
        ("easy", "", ",time_min_s,het", ",50,a", "heterogeneous jobs"),
    ],
)  # fmt: skip
def test_a_policy_that_does_not_go_with_the_jobs_is_refused_before_any_run(
    tmp_path: Path, policy: str, cluster: str, more: str, one: str, said: str
) -> None:
    (tmp_path / "jobs.csv").write_text(PLAIN.format(more=more, one=one, two=one.replace("low", "high")))
    (tmp_path / "study.toml").write_text(STUDY.format(policy=policy, cluster=cluster))
    with pytest.raises(UnrackError, match=said) as refused:
        load_study(str(tmp_path / "study.toml"))
    assert "study.toml, line" in str(refused.value)
