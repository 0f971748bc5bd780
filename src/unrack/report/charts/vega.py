"""Vega-Lite and what it needs, as one script that can stand inside an element."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib import resources
from importlib.metadata import version
from pathlib import Path

from unrack.extras import needed_for


def vega() -> str:
    """The script, which comes with the wheel (``hatch_build.py``).

    In a checkout it is bundled, which takes seconds and vl-convert (else a MissingError), and kept in the user's cache,
    where there is one.
    """
    packaged = resources.files("unrack.report").joinpath("assets", "vega.js")
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    with needed_for("charts of a report from a checkout"):
        import vl_convert  # noqa: F401

    release = version("vl-convert-python")
    kept = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "unrack", f"vega-{release}.js")
    with suppress(OSError, RuntimeError, UnicodeDecodeError):  # RuntimeError: there is no home
        kept = kept.expanduser()
        if text := kept.read_text(encoding="utf-8"):
            return text
    script = bundled()
    with suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = kept.with_name(f"{kept.name}.{os.getpid()}")
        part.write_text(script, encoding="utf-8", newline="\n")
        part.replace(kept)
    return script


def bundled() -> str:
    """The script, put together by vl-convert."""
    import vl_convert

    bundle = str(vl_convert.javascript_bundle())  # type: ignore[call-arg]  # its stub forgets that snippet is optional
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")
