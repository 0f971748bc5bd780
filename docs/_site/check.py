"""What a built site must keep: links that lead somewhere, and nothing that is loaded from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "object": "data"}
RELATIONS = {"stylesheet", "icon", "preload", "prefetch", "preconnect", "modulepreload"}


class Page(HTMLParser):
    """The links, anchors and loaded files of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take what a tag names, links to, or loads."""
        said = {key: value or "" for key, value in attrs}
        self.anchors |= {said[key] for key in ("id", "name") if key in said}
        if tag == "a" and "href" in said:
            self.links.append(said["href"])
        if tag == "link" and RELATIONS & set(said.get("rel", "").split()):
            self.loads.append(said["href"])
        if tag in LOADS and said.get(LOADS[tag]):
            self.loads.append(said[LOADS[tag]])


def faults(site: Path) -> Iterator[str]:
    """Each link of the pages that leads nowhere, and each file that a page would fetch from a network."""
    pages = {
        path.resolve(): Page(path.read_text())
        for path in sorted(site.rglob("*.html"))
        if path.relative_to(site).parts[0] != "gallery" and path.name != "404.html"
    }
    for path, page in pages.items():
        here = path.relative_to(site.resolve())
        for load in page.loads:
            if re.match(r"(?:https?:)?//", load):
                yield f"{here} loads {load}"
            elif not load.startswith("data:") and not (path.parent / unquote(load.partition("?")[0])).is_file():
                yield f"{here} loads {load}, which is not there"
        for link in page.links:
            if re.match(r"[a-z]+:|//", link):
                continue
            target, _, anchor = link.partition("#")
            where = (path.parent / unquote(target)).resolve() if target else path
            if not where.exists():
                yield f"{here} links to {link}"
            elif anchor and where in pages and unquote(anchor) not in pages[where].anchors:
                yield f"{here} links to {link}, an anchor that is not there"
    for style in sorted(site.rglob("*.css")):
        for url in re.findall(r"url\(\s*['\"]?((?:https?:)?//[^'\")]+)", style.read_text()):
            yield f"{style.relative_to(site)} loads {url}"
