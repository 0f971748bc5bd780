"""The stories of three users, from a fresh clone: a tutorial typed in a terminal, its pages in a browser, a notebook.

    python3 tests/stories/stories.py

clones this repository into a temporary folder, makes an environment there, installs (from the cache of pip, where it
can), and runs itself there. It prints the time of each story, and ends with 1 if one fails. Needs Chromium.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
STORIES = {
    "researcher": (["out/mine/report.html", "out/log/report.html"], ["policy", "figures"]),
    "planner": (["out/plan-nvme/plan.html", "out/nodes/plan.html"], ["planning"]),
    "operator": (["out/operator/report.html", "out/more/report.html"], []),
}
"""Tutorial → pages that it leaves, and the notebooks that go with it."""


def from_a_fresh_clone() -> int:
    """Clone, install, and tell the stories there."""
    with tempfile.TemporaryDirectory(prefix="unrack-stories-") as folder:
        began = time.monotonic()
        clone, venv = Path(folder) / "unrack", Path(folder) / "venv"
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        pip = [venv / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        wanted = [".[all,docs]", "playwright", "--constraint", "constraints.txt"]
        subprocess.run([*pip, *wanted], cwd=clone, check=True)
        print(f"clone and install: {time.monotonic() - began:.0f} s", flush=True)
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "UNRACK"))}
        script = clone / "tests" / "stories" / "stories.py"
        command = [venv / "bin" / "python", script, "--inside"]
        return subprocess.run(command, cwd=folder, env=environment, check=False).returncode


def tell(name: str, folder: Path) -> list[str]:
    """Follow a tutorial, look at its pages, run its notebooks; what went wrong."""
    from browser import look
    from notebook import NOTEBOOKS, run
    from tutorial import TUTORIALS, environment_of, follow

    pages, notebooks = STORIES[name]
    faults, began = [], time.monotonic()
    os.environ.update(environment_of(Path(sys.executable).parent))
    for typed in follow(TUTORIALS[name], folder, dict(os.environ)):
        print(f"  {typed.took_s:5.1f} s  $ {typed.command}", flush=True)
        if typed.code:
            faults.append(f"{typed.command}: {typed.said}")
    for page in pages:
        seen = time.monotonic()
        faults += look(folder / page) if (folder / page).is_file() else [f"{page} is not there"]
        print(f"  {time.monotonic() - seen:5.1f} s  {page} in a browser", flush=True)
    for each in notebooks:
        ran = time.monotonic()
        run(NOTEBOOKS[each], folder)
        print(f"  {time.monotonic() - ran:5.1f} s  notebook {each}", flush=True)
    print(f"{name}: {time.monotonic() - began:.0f} s{', FAILED' if faults else ''}", flush=True)
    return faults


def main() -> int:
    """Tell all stories, here or from a fresh clone."""
    if "--inside" not in sys.argv:
        return from_a_fresh_clone()
    if shutil.which("chromium") is None and shutil.which("chromium-browser") is None:
        print("Chromium is not installed: apt-get install chromium")
        return 1
    faults = []
    for name in STORIES:
        with tempfile.TemporaryDirectory() as folder:
            faults += tell(name, Path(folder))
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
