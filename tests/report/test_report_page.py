import re

import pytest
from fabricate import make_study

from unrack.report.page import write_report


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    base = tmp_path_factory.mktemp("studies")
    made = {}

    def page(key, **options):
        if key not in made:
            made[key] = write_report(make_study(base / key, **options)).read_text(encoding="utf-8")
        return made[key]

    return page


def without_vega(page):
    return re.sub(r"<script>.*?</script>", "", page, flags=re.S)


def test_a_page_has_every_section_and_the_answer_in_numbers(studies):
    page = studies("plain")
    for section in ("comparison", "charts", "gantt", "input", "breakdown", "reproduce"):
        assert f'id="{section}"' in page
    assert "Which policy waits least?" in page
    assert re.search(r"Mean wait is shortest under <b>\w+</b>: <b>[\d a-z]+</b>, \d+ % less than under fcfs", page)
    assert "unrack run study.toml" in page
    assert "ab" * 32 in page


def test_the_rules_by_which_input_was_dropped_are_spelt_out(studies):
    page = studies("plain")
    assert "310 job lines read" in page
    assert "dropped: cancelled before start" in page
    assert "never ran; it is dropped." in page


def test_nothing_on_the_page_points_outside_it(studies):
    page = without_vega(studies("plain"))
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?!#)""", page)
    assert "@import" not in page
    assert "url(" not in page
    assert "default-src 'none'" in page


def test_two_reports_of_one_study_have_the_same_bytes(tmp_path):
    first = write_report(make_study(tmp_path / "one", seeds=(0, 1))).read_bytes()
    again = write_report(tmp_path / "one").read_bytes()
    elsewhere = write_report(make_study(tmp_path / "two", seeds=(0, 1))).read_bytes()
    assert first == again == elsewhere
    assert str(tmp_path).encode() not in first
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == [
        "report.html",
        "runs",
        "study.toml",
        "summary.csv",
    ]


def test_hostile_names_stay_text(studies):
    evil = "</script><img src=x onerror=alert(1)>\"'&ünï<!--"
    page = studies("evil", name=evil, question=evil, user=evil, workload=evil, policies=("fcfs", f"easy{evil}"))
    assert "<img src=x" not in page
    assert "&lt;/script&gt;&lt;img src=x" in page
    assert page.count("<script") == page.count("</script>")
    assert len(re.findall(r"<script[ >]", page)) == 11


def test_one_run_alone_makes_a_page_without_a_best(studies):
    page = without_vega(studies("alone", policies=("fcfs",)))
    assert "Mean wait is <b>" in page
    assert 'class="best"' not in page.split("<tbody>")[1]


def test_a_study_where_no_job_finished_says_so_and_why(studies):
    page = without_vega(studies("none", state="rejected"))
    assert "No job finished in any run" in page
    assert "too-big: cores" in page
    assert ">300<" in page
    assert 'id="breakdown"' not in page


def test_a_sweep_is_compared_setting_by_setting_over_its_seeds(studies):
    page = without_vega(studies("sweep", jobs=60, sweep=("workloads.scale_load", [0.8, 1.0]), seeds=(0, 1, 2)))
    assert page.count('<tr class="group">') == 2
    assert " ± " in page
    assert "load = 0.8" in page
    assert '"name":"wait_s_p95","words":"P95 wait"' in page
    assert '<option value="wait_s_p95">P95 wait (wait_s_p95)</option>' in page


@pytest.mark.long
def test_hundreds_of_runs_are_all_compared_and_some_are_drawn(studies):
    page = studies("many", jobs=12, policies=("fcfs", "easy"), sweep=("x", list(range(110))))
    assert page.count('<tr class="group">') == 110
    assert "first 8 of 110 settings" in page
    assert "of 110 settings" in page
    assert len(page) < 3_000_000


@pytest.mark.long
def test_a_log_of_28_000_jobs_under_four_policies_stays_below_six_megabytes(studies):
    page = studies("kth", jobs=28_000, nodes=100, policies=("fcfs", "easy", "sjf", "easy(order=sjf)"))
    assert len(page) < 6_000_000
    assert page.count('"kept_jobs":28000') == 4
