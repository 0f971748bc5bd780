"""Vega-Lite and what it needs, as one script that can stand inside an element."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path


def vega() -> str:
    """The script; bundling it takes seconds, so it is kept in the user's cache, where there is one."""
    import vl_convert

    release = version("vl-convert-python")
    kept = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "unrack", f"vega-{release}.js")
    with suppress(OSError, RuntimeError, UnicodeDecodeError):  # RuntimeError: there is no home
        kept = kept.expanduser()
        if text := kept.read_text(encoding="utf-8"):
            return text
    bundle = str(vl_convert.javascript_bundle())  # type: ignore[call-arg]  # its stub forgets that snippet is optional
    script = bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")
    with suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = kept.with_name(f"{kept.name}.{os.getpid()}")
        part.write_text(script, encoding="utf-8", newline="\n")
        part.replace(kept)
    return script
