"""What MkDocs does besides rendering the pages of docs/: pages made from the code, from notebooks and from examples."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from check import faults
from commands import commands_page
from examples import examples_page
from listings import decisions_page, metrics_page, names_page, packages_page
from notebooks import notebook_page
from papers import with_tables
from reports import with_reports
from sources import REPRODUCTIONS, linked_files, with_source_links

ROOT = Path(__file__).parents[2]


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made here, and the files outside of docs/ that pages link to."""
    from mkdocs.structure.files import File

    made = {
        "reference/commands.md": commands_page(),
        "reference/python.md": names_page("unrack", "Python", "What a study or a notebook needs."),
        "reference/policy.md": names_page("unrack.policy", "Policies of your own", "What a policy of your own needs."),
        "reference/packages.md": packages_page(),
        "reference/metrics.md": metrics_page(),
        "reference/examples.md": examples_page(ROOT),
        "decisions/index.md": decisions_page(ROOT / "docs" / "decisions"),
    }
    for uri, text in made.items():
        files.append(File.generated(config, uri, content=text))
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        uri = f"notebooks/{path.name}"
        files.remove(files.src_uris[uri])
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=notebook_page(path)))
        files.append(File.generated(config, f"source/docs/{uri}", abs_src_path=str(path)))
    for path in sorted((ROOT / REPRODUCTIONS).iterdir()):
        files.append(File.generated(config, f"reproductions/{path.name}", abs_src_path=str(path)))
    for path in linked_files(ROOT):
        files.append(File.generated(config, f"source/{path.relative_to(ROOT)}", abs_src_path=str(path)))
    for path in sorted((ROOT / "out" / "gallery").glob("*/report.html")):
        files.append(File.generated(config, f"gallery/{path.parent.name}.html", abs_src_path=str(path)))
    return files


def on_config(config: Any) -> Any:
    """Notebooks are pages in Markdown by the time that the navigation is made."""
    config.nav = _renamed(config.nav)
    return config


def _renamed(entry: Any) -> Any:
    if isinstance(entry, list):
        return [_renamed(one) for one in entry]
    if isinstance(entry, dict):
        return {key: _renamed(one) for key, one in entry.items()}
    return re.sub(r"\.ipynb$", ".md", entry)


def on_page_markdown(text: str, page: Any, config: Any, files: Any) -> str:
    """Lead links out of docs/ to copies of the files, and fill in what is counted on other pages."""
    uri = page.file.src_uri
    if uri.startswith("papers/"):
        text = with_tables(text, ROOT / REPRODUCTIONS)
    if uri == "gallery.md":
        text = with_reports(text, ROOT / "out" / "gallery")
    return with_source_links(text, uri, ROOT)


def on_post_build(config: Any) -> None:
    """Refuse a site with links that lead nowhere, or that loads anything from elsewhere."""
    from mkdocs.exceptions import PluginError

    found = list(faults(Path(config.site_dir)))
    if found:
        raise PluginError("\n".join(found))
