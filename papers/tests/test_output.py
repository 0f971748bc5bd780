"""What people see: lists, tables, pages, figures."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from pretend import engine, in_place_of_runs, noise
from pretend_memory import engine as memory_engine
from pretend_memory import pretended
from typer.testing import CliRunner

from unrack.cli import main as command_line
from unrack_papers.execution import execute
from unrack_papers.options import Options
from unrack_papers.pages.page import COLUMNS, as_page, judged, stem, write
from unrack_papers.pages.sheet import sheets_of
from unrack_papers.reproduction import Numbers, Task
from unrack_papers.table import REPRODUCTIONS
from unrack_papers.verdict import NOT_MEASURED, Verdict

ROOT = Path(__file__).parents[2]
NAMES = [
    *("nvme-s1", "nvme-s2", "nvme-s3", "nvme-nodes", "nvme-policies", "nvme-deadlines", "nvme-devices", "nvme-fio"),
    *("vgpu-split", "vgpu-nodes", "vgpu-heterogeneous", "vgpu-overhead"),
    *("memory-throughput", "memory-response", "memory-utilisation", "memory-threshold", "memory-policies"),
    *("memory-groups", "memory-overhead", "memory-prediction", "memory-published-jobs"),
    *("overestimation-throughput", "overestimation-response", "overestimation-users"),
    *("dynamic-throughput", "dynamic-response", "dynamic-cost", "dynamic-memory", "dynamic-utilisation"),
    *("dynamic-users", "dynamic-overestimation", "dynamic-initial", "dynamic-sharing"),
    *("slo-violations", "slo-price", "slo-utilisation", "torus-placement", "torus-scaling"),
    *("gpu-timeline", "gpu-scenario1", "gpu-scenario2", "gpu-pack-spread", "gpu-collocation", "gpu-backfill"),
    *("flow-makespan", "flow-network", "flow-utilisation", "flow-solvers"),
    *("gpu-fragmentation", "flow-dlrm"),
]
WORDS = ("yes", "not comparable", *Verdict)
"""What stands in cells beside numbers and dashes."""


@pytest.fixture
def pretending(monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setattr("unrack_papers.simulation.simulated", in_place_of_runs(engine))
    return CliRunner()


def test_every_table_and_figure_is_there_and_documented(pretending: CliRunner) -> None:
    assert list(REPRODUCTIONS) == NAMES
    lines = pretending.invoke(command_line.app, ["reproduce", "--list"]).output.splitlines()
    page = (ROOT / "docs" / "reproductions.md").read_text()
    for line, (name, one) in zip(lines, REPRODUCTIONS.items(), strict=True):
        assert line.split() == [name, *one.shows.split(), *one.summary.split()]
        assert f"## `{name}`: {one.shows}" in page
    entries = json.loads(pretending.invoke(command_line.app, ["reproduce", "--list", "--json"]).output)
    assert list(entries) == NAMES


def test_every_column_of_the_csv_file_is_documented() -> None:
    page = (ROOT / "docs" / "reproductions.md").read_text()
    for column, words in COLUMNS.items():
        assert f"| `{column}` | {words} |" in page


@pytest.mark.parametrize(
    "arguments",
    [
        ["nvme-s9"],
        [],
        ["nvme-s1", "--arrivals", "bursts"],
        ["nvme-s1", "--offer", "0.9"],
        ["memory-groups", "--arrivals", "poisson"],
        ["memory-prediction", "--seeds", "1"],
        ["memory-prediction", "--until-decided", "9"],
        ["nvme-s1", "--until-decided", "40", "--fresh"],
        ["nvme-s1", "--until-decided", "19"],
    ],
)
def test_wrong_input_ends_with_exit_code_2_and_what_was_wanted(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["unrack", "reproduce", *arguments])
    with pytest.raises(SystemExit) as ended:
        command_line.main()
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert "wanted" in error
    assert any(
        word in error for word in ("nvme-s1", "poisson", "0.9=1.4", "--profiles", "seeds are added", "20 or more")
    )


def test_the_time_on_the_wall_is_printed_by_the_command_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("unrack_papers.simulation.simulated", in_place_of_runs(memory_engine))
    arguments = ["reproduce", "memory-overhead", "--jobs", "1", "--out", str(tmp_path)]
    done = CliRunner().invoke(command_line.app, arguments)
    assert done.exit_code == 0, done.output
    assert "Baseline / Disaggregated = 1." in done.stdout
    assert "ms a job" not in (tmp_path / "memory-overhead.md").read_text()
    assert max(len(line.rstrip()) for line in done.stdout.splitlines() if str(tmp_path) not in line) <= 120


def test_the_command_prints_tables_of_at_most_120_columns_and_writes_files(
    pretending: CliRunner, tmp_path: Path
) -> None:
    done = pretending.invoke(
        command_line.app, ["reproduce", "nvme-s1", "--seeds", "3", "--jobs", "1", "--out", str(tmp_path)]
    )
    assert done.exit_code == 0, done.output
    assert "warning: too few seeds (3," in done.output
    assert max(len(line.rstrip()) for line in done.stdout.splitlines() if str(tmp_path) not in line) <= 120
    for words in (
        "Lookahead *",
        "96.71",
        "bound",
        "agrees: Under first fit, pooling cuts missed deadlines",
        "Of 13 claims",
    ):
        assert words in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {
        "runs",
        *(f"nvme-s1.{end}" for end in ("md", "csv", "svg", "png")),
    }


def test_enough_seeds_give_no_warning(pretending: CliRunner, tmp_path: Path) -> None:
    done = pretending.invoke(command_line.app, ["reproduce", "nvme-nodes", "--jobs", "1", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "warning" not in done.output.lower()


def test_json_holds_claims_and_rows_and_nothing_else_is_printed(pretending: CliRunner, tmp_path: Path) -> None:
    arguments = ["reproduce", "nvme-s1", "--seeds", "2", "--jobs", "1", "--json", "--out", str(tmp_path)]
    answer = json.loads(pretending.invoke(command_line.app, arguments).output)
    assert answer["seeds"] == 2
    assert {claim["verdict"] for claim in answer["claims"]} <= set(Verdict)
    assert sum(answer["claims_found"].values()) == len(answer["claims"])
    assert sum(answer["values_found"].values()) == 180
    assert {"group", "x", "row", "metric", "paper", "ours", "low", "high"} <= set(answer["rows"][0])
    assert all(Path(path).is_file() for path in answer["files"])


@pytest.mark.long
def test_seeds_are_added_to_those_that_were_run_and_an_interruption_loses_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran: list[tuple[int, str]] = []

    def counted(task: Task) -> list[Numbers]:
        if len(ran) == 30 and "broken" not in marks:
            marks.add("broken")
            raise KeyboardInterrupt
        ran.append((task.seed, str((task.workload, task.rows))))
        return [{**one, "jobs_per_h": one["jobs_per_h"] * (1 + 0.2 * noise(task.seed, i))}  # type: ignore[operator]
                for i, one in enumerate(memory_engine(task))]  # fmt: skip

    marks: set[str] = set()
    monkeypatch.setattr("unrack_papers.simulation.simulated", in_place_of_runs(counted))
    command = ["reproduce", "memory-threshold", "--jobs", "1", "--seeds", "2", "--until-decided", "9"]
    out = ["--out", str(tmp_path / "a")]
    assert CliRunner().invoke(command_line.app, [*command, *out]).exit_code == 130
    done = CliRunner().invoke(command_line.app, [*command, *out])
    assert done.exit_code == 0, done.output
    seeds = {seed for seed, _ in ran}
    assert seeds in ({0, 1, 2, 3}, set(range(8)))  # two looks or three
    assert len(ran) == len(set(ran)), "a run was run twice"
    page = (tmp_path / "a" / "memory-threshold.md").read_text()
    assert "unrack reproduce memory-threshold --seeds 2 --until-decided 9`" in page
    assert f"looked at after 2, 4{', 8' if len(seeds) == 8 else ''} seeds" in page
    assert CliRunner().invoke(command_line.app, [*command, "--out", str(tmp_path / "b")]).exit_code == 0
    for end in ("md", "csv"):
        assert (tmp_path / "a" / f"memory-threshold.{end}").read_bytes() == (
            tmp_path / "b" / f"memory-threshold.{end}"
        ).read_bytes()
    answer = json.loads(CliRunner().invoke(command_line.app, [*command, *out, "--json"]).output)
    assert answer["looks"] == ([2, 4, 8] if len(seeds) == 8 else [2, 4])
    assert all(claim["seeds"] in answer["looks"] for claim in answer["claims"])


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_every_reproduction_has_a_page_a_figure_with_all_its_panels_and_numbers_for_every_claim(
    name: str, tmp_path: Path
) -> None:
    one = REPRODUCTIONS[name]
    measured = pretended(name, 2)
    findings = judged(measured)
    write(measured, findings, tmp_path)
    figure = (tmp_path / f"{stem(measured)}.svg").read_text()
    if not name.startswith(("nvme-s", "gpu-scenario")):
        for group in measured.groups:
            assert measured.titled(group).replace("&", "&amp;") in figure
    assert figure.count("<path") > 10
    page = (tmp_path / f"{stem(measured)}.md").read_text()
    assert page == as_page(measured, findings)
    for part in ("## Claims", "## Numbers", f"({stem(measured)}.svg)", f"({stem(measured)}.csv)"):
        assert part in page
    assert ("Too few seeds (2," in page) == (not one.exact)
    assert one.claims
    for claim, finding in findings:
        assert claim.sentence
        assert claim.sentence in page
        assert "§" in claim.source or "Table" in claim.source or claim.source in ("this project", "abstract")
        assert finding.checks, claim.sentence
        assert NOT_MEASURED not in finding.why, claim.sentence
    for sheet in sheets_of(measured):
        assert all(len(line) == len(sheet.heads) for line in sheet.lines)
        texts = ["".join(cell.lines) for line in sheet.lines for cell in line[sheet.names :]]
        assert all(re.search(r"\d|–", text) or text in WORDS for text in texts)


def test_the_table_of_a_paper_has_a_line_a_row_and_marks_what_is_ours() -> None:
    measured = execute(REPRODUCTIONS["nvme-s1"], Options(seeds=3), solve=engine)
    (sheet,) = sheets_of(measured)
    assert len(sheet.lines) == 5 * 8
    names = [line[1].lines[0] for line in sheet.lines[:8]]
    baseline = ["First Fit, base times", "PA First Fit, base times"]
    here = ["First Fit, measured speeds *", "PA First Fit, measured speeds *"]
    assert names == [*baseline, *here, "Disagg-Aware", "PA Disagg-Aware", "Lookahead *", "PA Lookahead *"]
    assert len(sheet.lines[0][2].lines) == 3
    assert len(sheet.lines[6][2].lines) == 1
    size = sheet.heads.index("size")
    assert [line[size].lines[-1][:5] for line in sheet.lines[:8]] == 8 * ["true "]
