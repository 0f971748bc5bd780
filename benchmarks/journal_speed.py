"""How fast a live scheduler's journal is: batches a second, with and without waiting for the disk, and reading it.

Run: ``python benchmarks/journal_speed.py [FOLDER]``; the folder, default a temporary one, says which disk.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from shutil import rmtree

from unrack.live.journal.disk import Disk
from unrack.live.journal.journal import Journal
from unrack.live.journal.reading import read_journal

READ = 1_000_000


def record(i: int) -> dict[str, object]:
    return {"kind": "start", "at_us": 1_700_000_000_000_000 + i, "job": i, "nodes": ["n17", "n18"], "cores": [8, 8]}


def appended(folder: Path, batches: int, size: int, durable: bool) -> None:
    """Print how fast batches of that size are written."""
    rmtree(folder, ignore_errors=True)
    work = [[record(i * size + j) for j in range(size)] for i in range(batches)]
    with Journal.open(folder, disk=Disk(durable)) as journal:
        began = time.perf_counter()
        for batch in work:
            journal.append(batch)
        took = time.perf_counter() - began
    how = "on disk" if durable else "not waiting"
    print(
        f"{size:6} records a batch, {how:11}: {batches / took:9,.0f} batches/s, {batches * size / took:9,.0f} records/s"
    )


def main() -> None:
    """Print all."""
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as name:
        folder = Path(name) / "journal"
        for size in (1, 10, 1000):
            appended(folder, 2000 if size < 1000 else 100, size, durable=True)
            appended(folder, 20_000 // size, size, durable=False)
        appended(folder, READ // 1000, 1000, durable=False)
        began = time.perf_counter()
        count = sum(1 for _ in read_journal(folder))
        took = time.perf_counter() - began
        print(f"reading {count:,} records, {sum(f.stat().st_size for f in folder.iterdir()) / 2**20:.0f} MB: "
              f"{took:.1f} s, {count / took:,.0f} records/s")  # fmt: skip


if __name__ == "__main__":
    main()
