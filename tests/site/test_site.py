"""The documentation is built as a site, strictly; its links lead somewhere, and its pages fetch nothing."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from notebook import is_newer

import unrack
from unrack.policy import __all__ as policy_names
from unrack_papers.table import REPRODUCTIONS

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
SITE = ROOT / "docs" / "_site"


def of_site(name: str) -> ModuleType:
    """A module of docs/_site, which is no package."""
    spec = importlib.util.spec_from_file_location(f"docs_site_{name}", SITE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once: by `make docs` since anything was changed, or here."""
    if is_newer(ROOT / "site" / "index.html", "src", "papers", "docs", "examples"):
        return ROOT / "site"
    pytest.importorskip("material")
    pytest.importorskip("mkdocstrings")
    built = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'papers' / 'src'}", "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(built)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return built


def test_no_link_of_the_site_leads_nowhere_and_no_page_loads_from_elsewhere(site: Path) -> None:
    assert len(list(site.rglob("*.html"))) > 100
    assert list(of_site("check").faults(site)) == []


def test_every_public_name_and_command_is_in_the_reference(site: Path) -> None:
    pages = ("python.html", "policy.html", "packages.html")
    python, policy, packages = ((site / "reference" / page).read_text() for page in pages)
    for name in unrack.__all__:
        assert f'id="unrack.{name}"' in python, name
    for name in policy_names:
        assert f'id="unrack.policy.{name}"' in policy or f"<code>{name}</code>" in policy, name
    for package in of_site("listings").PACKAGES:
        for name in import_module(package).__all__:
            assert f'id="{package}.{name}"' in packages or f"<code>{name}</code>" in packages, name
    commands = (site / "reference" / "commands.html").read_text()
    for name in ("unrack-run", "unrack-plan", "unrack-trace-info", "unrack-init-study"):
        assert f'id="{name}"' in commands, name
    assert "--goal" in commands
    metrics = (site / "reference" / "metrics.html").read_text()
    for name in unrack.metrics():
        assert f"<code>{name}</code>" in metrics, name


def test_every_page_of_a_reproduction_is_on_the_page_of_its_paper(site: Path) -> None:
    pages = "".join(path.read_text() for path in (site / "papers").glob("*.html"))
    for path in (ROOT / "papers" / "docs" / "reproductions").glob("*.md"):
        assert f"../reproductions/{path.stem}.html" in pages, path.stem
    names = {re.split(r"[\s`]", path.read_text().partition("unrack reproduce ")[2])[0]
             for path in (ROOT / "papers" / "docs" / "reproductions").glob("*.md")}  # fmt: skip
    assert names <= set(REPRODUCTIONS)


def test_tables_of_papers_count_what_the_pages_of_reproductions_say(tmp_path: Path) -> None:
    (tmp_path / "gpu-fragmentation-of-mine.md").write_text(
        "# Section 6: some\n\n*Written by `unrack reproduce gpu-fragmentation --pods mine.csv`: 2 seeds.*\n\n"
        "## Claims\n\nOf 3 claims, we agree with 1, differ from 2, and 0 cannot be judged.\n\n"
        "* ✗ **differs** – Best is best (§6).<br>1\n\n"
        "Of 9 values of the paper, we agree with 7, differ from 2, and 0 cannot be judged.\n"
    )
    text = of_site("papers").with_tables("# Paper\n\n<!-- reproductions of weng -->\n", tmp_path)
    row = "`unrack reproduce gpu-fragmentation --pods mine.csv` | 1 / 2 / 0 | 7 of 9 |"
    assert f"| [Section 6: some](../reproductions/gpu-fragmentation-of-mine.md) | {row}" in text
    assert "* Best is best (§6). [→](../reproductions/gpu-fragmentation-of-mine.md#claims)" in text


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<a href="gone.html">x</a>', "links to gone.html"),
        ('<a href="#gone">x</a>', "links to #gone, an anchor"),
        ('<script src="https://cdn.example/x.js"></script>', "loads https://cdn.example/x.js"),
        ('<link rel="stylesheet" href="//fonts.example/a.css">', "loads //fonts.example/a.css"),
        ('<img src="gone.png">', "loads gone.png, which is not there"),
    ],
)
def test_a_page_with_a_fault_is_found_out(body: str, fault: str, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(f"<html><body>{body}</body></html>")
    (found,) = of_site("check").faults(tmp_path)
    assert fault in found


@pytest.mark.browser
def test_pages_opened_as_files_fetch_nothing_and_their_search_finds(site: Path) -> None:
    api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("Chromium is not installed")
    faults: list[str] = []
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--headless", "--no-sandbox"])
        page = browser.new_page()
        page.on("request", lambda one: None if one.url.startswith(("file:", "data:")) else faults.append(one.url))
        page.on("requestfailed", lambda one: faults.append(one.url))
        page.on("pageerror", lambda error: faults.append(str(error)))
        for name in ("index", "tutorials/researcher", "reference/python", "papers/call", "notebooks/policy"):
            page.goto((site / f"{name}.html").as_uri())
            page.wait_for_selector("h1")
        page.goto((site / "index.html").as_uri())
        # Once it is loaded, the search listens to keys alone.
        page.locator("input[name=query]").press_sequentially("contention")
        page.wait_for_selector(".md-search-result__item a", timeout=60_000)
        assert "ontention" in page.inner_text(".md-search-result__list")
        browser.close()
    assert faults == []
