"""Digests of what studies compute: ``digests.py make`` writes them, ``digests.py check [NAME …]`` compares.

Each study of ``examples/`` under several seeds; of each run the tables that it keeps and its line of the summary.
Names of files and the order of runs do not matter; numbers, names of columns and their order do.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import re
import sys
import tempfile
from pathlib import Path

import polars as pl

from unrack.cli.main import app

HERE = Path(__file__).resolve().parent
EXAMPLES = Path.cwd() / "examples"
KEPT = HERE / "digests.json"
SEEDS = (0, 1, 2, 3, 4, 5)
LEFT_OUT = {"kth-sp2", "plan-memory", "plan-nvme"}
"""A log that is not in the repository, and plans, which are no runs."""
ODD = 2**0.5
NOTHING = 1e-12
QUICK = ("everything", "gpus", "tiers", "lending", "provisioning", "licences", "faults")


def studies() -> list[str]:
    """All, as ``NAME@SEED``."""
    return [f"{p.stem}@{s}" for p in sorted(EXAMPLES.glob("*.toml")) if p.stem not in LEFT_OUT for s in SEEDS]


def digest(study: str, *more: str) -> dict[str, str]:
    """Of one study: a digest a table, over all of its runs; ``more``: further options of the command."""
    name, seed = study.split("@")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        call = ["run", str(EXAMPLES / f"{name}.toml"), "--out", str(out), "--seed", seed]
        with contextlib.redirect_stdout(io.StringIO()):
            app([*call, "--jobs", "1", *more, "-q"], standalone_mode=False)
        assert "--no-report" in more or (out / "report.html").is_file()
        found: dict[str, list[str]] = {}
        for path in sorted(out.rglob("*.parquet"), key=lambda p: (_plain(p.parent.name), p.name)):
            text = pl.read_parquet(path).write_ndjson().encode()
            found.setdefault(path.stem, []).append(f"{_plain(path.parent.name)} {hashlib.sha256(text).hexdigest()}")
        summary = re.sub(r"-[0-9a-f]{8}\b", "", (out / "summary.csv").read_text())
        found["summary"] = [re.sub(r"-?\d+\.\d+(e-?\d+)?", lambda number: _rounded(float(number[0])), summary)]
    return {
        table: hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]
        for table, lines in sorted(found.items())
    }


def _rounded(number: float) -> str:
    """A mean, which is a sum in an order that depends on the processor, as is what is left of a difference that is 0.

    It is not rounded where a mean of times can end.
    """
    return "0" if abs(number) < NOTHING else f"{number * ODD:.9g}"


def _plain(run: str) -> str:
    """A run's name without what identifies its inputs."""
    return re.sub(r"-[0-9a-f]{8}$", "", run)


def differences(names: list[str], *more: str) -> list[str]:
    """What is not as it was: ``STUDY: TABLE``; ``more``: as of :func:`digest`."""
    kept = json.loads(KEPT.read_text())
    found = []
    for study in names:
        now = digest(study, *more)
        found += [f"{study}: {t}" for t in sorted({*now, *kept[study]}) if now.get(t) != kept[study].get(t)]
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["make"]:
        KEPT.write_text(json.dumps({s: digest(s, "--no-report") for s in studies()}, indent=1) + "\n")
    else:
        wanted = [s for s in studies() if not sys.argv[2:] or s in sys.argv[2:] or s.split("@")[0] in sys.argv[2:]]
        wrong = differences(wanted, "--no-report")
        sys.stdout.write("\n".join(wrong) + f"\n{len(wanted)} studies, {len(wrong)} tables differ\n")
        sys.exit(bool(wrong))
