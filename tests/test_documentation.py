"""Documentation keeps up: everything a user can name is described, and every link leads somewhere."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
import typer

import unrack
from unrack.cli.main import app
from unrack.cluster.pools.pool import PoolFile
from unrack.cluster.presets import PRESETS
from unrack.metric.holdings import STATISTICS
from unrack.metric.table import KIND_METRICS, METRICS, RESOURCE_METRICS
from unrack.policy.file import load_policy
from unrack.policy.gpus.rules import NEAREST, RULES
from unrack.policy.orders import ORDERS
from unrack.policy.provisioning.dynamic import PROVISIONING
from unrack.policy.table import POLICIES
from unrack.reasons import Code
from unrack.resources.counted.resource import CounterFile
from unrack.resources.gpus.columns import QUANTITIES, MachineFile
from unrack.resources.gpus.profiles import BUILT_IN
from unrack.sim.world import Ties
from unrack.slowdown.memory.settings import ContentionTable
from unrack.slowdown.model import PUBLISHED, ModelTable
from unrack.study.input.file import MeasureTable, StudyTable
from unrack_papers.workloads.scenarios import SCENARIOS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def section(name: str, title: str) -> str:
    """The text below a heading, up to the next of its level or above."""
    rest = page(name).partition(f"\n{title}\n")[2]
    assert rest, f"{name} has no {title!r}"
    level = len(title) - len(title.lstrip("#"))
    return re.split(rf"\n#{{1,{level}}} ", rest)[0]


def test_every_policy_and_parameter_is_described() -> None:
    text = page("policies.md")
    for name, entry in POLICIES.items():
        row = next(line for line in text.splitlines() if line.startswith(f"| `{name}` |"))
        assert entry.summary in row
        for parameter, details in entry.parameters.items():
            if parameter in PROVISIONING:  # of many policies: on a page of their own
                assert "(provisioning.md#parameters)" in row
                assert f"| `{parameter}` | {details.words} | {details.default} |" in page("provisioning.md")
                continue
            assert f"`{parameter}`" in row
            assert details.words in text
    for order in ORDERS:
        assert order in text


def test_every_metric_is_described() -> None:
    text = page("metrics.md")
    for name in METRICS:
        stem = next((name.removesuffix(f"_{part}") for part in STATISTICS if name.endswith(f"_{part}")), name)
        known = f"`{name}`" in text or stem.removesuffix("_s").replace("_", " ") in text
        assert known, name
    for part in STATISTICS:
        assert f"_{part}`" in text


def test_every_metric_of_devices_is_in_the_table_of_its_section() -> None:
    text = section("metrics.md", "## Pooled devices")
    for name in KIND_METRICS:
        assert f"\n| `{name}` |" in text, name


def test_every_metric_of_resources_is_in_the_table_of_its_section() -> None:
    text = section("metrics.md", "## Counters")
    for name in RESOURCE_METRICS:
        assert f"\n| `{name}` |" in text, name


def test_everything_of_gpus_that_has_a_name_is_described() -> None:
    for name in (NEAREST, *RULES):
        assert re.search(rf"^\| `{name}`[ |]", section("gpus.md", "## Rules"), re.MULTILINE), name
    for quantity in QUANTITIES:
        assert f"\n| `gpus.{quantity}` |" in section("gpus.md", "## What jobs ask"), quantity
    for key in MachineFile.model_fields:
        assert f"\n| `{key}` |" in section("gpus.md", "## The key `gpus` of a cluster"), key
    for name in BUILT_IN:
        assert f'profiles = "{name}"' in section("gpus.md", "## Profiles and speeds")


def test_every_model_and_scenario_is_described() -> None:
    models, scenarios = section("study-files.md", "## Models"), section("generators.md", "## Scenarios")
    for name, model in PUBLISHED.items():
        assert f"| `{name}` | {model.summary} |" in models
    for name, scenario in SCENARIOS.items():
        assert f"| `{name}` | {scenario.summary} |" in scenarios


@pytest.mark.parametrize(
    ("table", "title"),
    [
        (PoolFile, "## Pools"),
        (CounterFile, "### Counters"),
        (ModelTable, "## Models"),
        (StudyTable, "## Top-level keys"),
        (ContentionTable, "## Contention"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_every_key_of_a_table_of_a_study_has_a_row_in_its_section(table: type, title: str) -> None:
    rows = [line.split("|")[1] for line in section("study-files.md", title).splitlines() if line.startswith("| `")]
    described = {key.split(".")[-1].strip("[]") for row in rows for key in re.findall(r"`([^`]+)`", row)}
    assert set(table.model_fields) <= described


def test_every_key_of_the_window_is_described() -> None:
    text = section("study-files.md", "## The window of the metrics")
    for name, field in MeasureTable.model_fields.items():
        assert f"{field.alias or name} = " in text


def test_every_command_is_described() -> None:
    group = typer.main.get_command(app)
    commands = [f"{name} {sub}" if sub else name for name, one in group.commands.items()
                for sub in getattr(one, "commands", [""])]  # fmt: skip
    everything = "\n".join(path.read_text() for path in PAGES)
    for command in commands:
        assert f"unrack {command}" in everything, command
    listed = re.search(r"The commands (.*?)\.\n", (ROOT / "CHANGELOG.md").read_text(), re.DOTALL)
    assert listed is not None
    for command in group.commands:
        assert re.search(rf"`{command}\b", listed[1]), command


def test_every_preset_and_tie_rule_is_described() -> None:
    for name, preset in PRESETS.items():
        assert f"| `{name}` | {preset.summary} |" in page("study-files.md")
    for ties in Ties:
        assert f"`{ties}`" in page("concepts.md")


def test_every_column_of_the_result_tables_is_described() -> None:
    workload = unrack.generate({"scenario": "nvme-s1", "load": 0.5, "jobs": 20})
    result = unrack.simulate(
        unrack.Cluster.preset("nvme-pool"), workload, "disaggregation-aware", world=unrack.World(models=["smufin"])
    )
    assert result.table("shares").height
    text = (ROOT / "docs" / "result-tables.md").read_text()
    for name in ("jobs", "usage", "placements", "shares"):
        start = text.index(f"\n**{name}**")
        table = text[start:].split("\n\n")[1]
        for column in result.table(name).columns:
            written = "KIND.QUANTITY" if column.startswith("nvme.") else column
            assert f"`{written}`" in table, f"{column} of {name}"


def test_every_public_name_has_a_docstring_and_every_reason_a_code() -> None:
    for name in unrack.__all__:
        assert getattr(unrack, name).__doc__, name
    assert len({code.value for code in Code}) == len(Code)


def test_the_policy_for_pools_on_the_page_decides_as_the_example_does() -> None:
    blocks = re.findall(r"```python\n(.*?)```", section("writing-a-policy.md", "## 3. A policy for pools"), re.DOTALL)
    names: dict[str, object] = {}
    exec(blocks[0], names)
    workload = unrack.generate({"scenario": "nvme-s1", "load": 0.8, "jobs": 60})
    cluster = unrack.Cluster.preset("nvme-pool")
    example = load_policy(f"{ROOT / 'examples' / 'my_pool_policy.py'}:SHORTEST_WAIT")
    runs = [
        unrack.simulate(cluster, workload, policy, world=unrack.World(models=["smufin"]))
        for policy in (names["SHORTEST_WAIT"], example)
    ]
    assert runs[0].table("shares").equals(runs[1].table("shares"))


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as they are made of their words."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_in_the_documentation_leads_somewhere() -> None:
    wrong = []
    for path in PAGES:
        for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", path.read_text()):
            to = path.parent / target if target else path
            if not target.startswith("http") and not (to.exists() and (not anchor or anchor in anchors(to))):
                wrong.append(f"{path} links to {target}#{anchor}")
    assert wrong == []


CODE = re.compile(r"`((?:[\w.-]+/)+[\w-]+\.py|(?:tests|src|papers|benchmarks|tools)/[\w./-]+)`")


def test_files_that_pages_name_are_there() -> None:
    rooms = ("src", "tests", "papers", "benchmarks", "docs", "tools", "examples")
    files = [f"/{path.relative_to(ROOT)}" for room in rooms for path in (ROOT / room).rglob("*")]
    for path in PAGES:
        named = {name.rstrip("/") for name in CODE.findall(path.read_text()) if "NAME" not in name}
        missing = [name for name in sorted(named) if not any(file.endswith(f"/{name}") for file in files)]
        assert missing == [], f"{path.name} names files that are not there"


def test_the_picture_of_rooms_is_that_of_the_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "images"))
    rooms = importlib.import_module("rooms")
    assert (ROOT / "docs" / "images" / "rooms.svg").read_text() == rooms.drawn(), (
        "python docs/images/rooms.py draws it again"
    )


def test_architecture_tells_of_every_room() -> None:
    table = section("architecture.md", "## Rooms")
    inside = [path for path in (ROOT / "src" / "unrack").iterdir() if path.is_dir() or path.suffix == ".py"]
    rooms = {path.stem for path in inside if path.stem[0] != "_"} - {"data"}
    assert {name for name in rooms if f"`{name}`" not in table and f"`{name}/`" not in table} == set()


def test_pages_say_first_whom_they_are_for() -> None:
    pages = sorted(path for path in (ROOT / "docs").glob("*.md") if path.stem != "index")
    assert [path.name for path in pages if not re.match(r"# .+\n\n\*For .+\.\*\n\n", path.read_text())] == []
