"""What ``unrack trace info`` shows, as Rich tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from unrack.cli.options import facts, grid
from unrack.units import seconds_text

_BARS = " ▁▂▃▄▅▆▇█"
_SPREAD = ("min", "p25", "median", "p75", "p95", "max", "mean")
_TIMES = ("run_s", "request_s")


def page(contents: dict[str, Any]) -> Iterator[RenderableType]:
    """The parts of the page, top to bottom, from what :func:`unrack.workload.account.describe` gave."""
    yield _head(contents)
    yield _spreads(contents)
    if contents["memory_bands"]:
        yield _memory(contents["memory_bands"])
    yield _arrivals(contents["arrivals"])
    titles = {
        "ignored": "Asked for and not honoured, or only on some clusters",
        "dropped": "Dropped",
        "changed": "Changed or noted",
    }
    for key, title in titles.items():
        if contents[key]:
            yield _rules(contents[key], title)
    if contents["missing"]:
        yield _missing(contents["missing"], contents["jobs"]["kept"])


def _head(contents: dict[str, Any]) -> Table:
    table = facts(escape(contents["name"]))

    def row(name: str, value: str) -> None:
        table.add_row(name, escape(value))

    jobs, span, load = contents["jobs"], contents["span"], contents["load"]
    row("file", f"{contents['source']} ({contents['format']})")
    for key in ("Computer", "Installation", "Note"):
        if key in contents["header"]:
            row(key.lower(), contents["header"][key])
    row("jobs", f"{jobs['kept']:,} of {jobs['read']:,} read")
    if span["first"]:
        row("submitted", f"{span['first']} to {span['last']}, {span['days']:.1f} days")
    elif span["first_s"] is not None:
        row("submitted", f"{span['first_s']:,.0f} s to {span['last_s']:,.0f} s, {span['days']:.1f} days")
    row("users, apps", f"{contents['users'] or 'not known'}, {contents['apps'] or 'not known'}")
    row("work", f"{contents['core_hours']:,.0f} core-hours")
    if load:
        row("offered load", f"{load['offered']:.1%} of {load['cores']:,} cores ({load['against']})")
    row("asked for", _asks(contents["asks"], contents["memory_mb"], jobs["kept"]))
    if contents["tiers"]:
        row("tiers of memory", _tiers(contents["tiers"]))
    if contents["gpus"]:
        row("GPUs", _gpus(contents["gpus"]))
    if devices := _devices(contents["asks"]["devices"]):
        row("devices", devices)
    if contents["states"]:
        row("states", ", ".join(f"{state}: {count:,}" for state, count in list(contents["states"].items())[:12]))
    if contents["arrays"]:
        row("arrays", f"{contents['arrays']['jobs']:,} jobs in {contents['arrays']['arrays']:,} arrays")
    sizes = ", ".join(f"{size}: {count:,}" for size, count in contents["common_sizes"].items())
    row("commonest sizes", f"{sizes} (cores: jobs)" if sizes else "none")
    if (too_big := contents["too_big"]) is not None:
        words = f"{too_big['jobs']:,} jobs do not fit on {too_big['nodes']:,} nodes of {too_big['cores']:,} cores"
        if too_big["jobs"]:
            words += f": job {', '.join(too_big['ids'])}{' …' if too_big['jobs'] > len(too_big['ids']) else ''}"
        row("too big", words)
    if "Columns" in contents["header"]:
        row("columns read", contents["header"]["Columns"])
    if "Filters" in contents["header"]:
        row("filters", contents["header"]["Filters"])
    return table


def _asks(asks: dict[str, Any], memory_mb: dict[str, float] | None, kept: int) -> str:
    words = ["cores"]
    if memory_mb is not None and memory_mb["max"] > 0:
        words.append("memory")
    words += [f"{name} ({_jobs(found['jobs'], kept)})" for name, found in asks["devices"].items() if found["jobs"]]
    if asks["deadlines"]:
        words.append(f"deadlines ({_jobs(asks['deadlines']['jobs'], kept)})")
    if asks["priorities"]:
        words.append("priorities (" + ", ".join(f"{p}: {count:,}" for p, count in asks["priorities"].items()) + ")")
    return ", ".join(words)


def _devices(devices: dict[str, Any]) -> str:
    shown = {name: found["common"] for name, found in devices.items() if found["jobs"] and not name.startswith("gpus.")}
    return "; ".join(
        f"{name} {', '.join(f'{amount}: {count:,}' for amount, count in common.items())} (each: jobs)"
        for name, common in shown.items()
    )


def _jobs(count: int, kept: int) -> str:
    return "all jobs" if count == kept else f"{count:,} jobs"


def _tiers(tiers: dict[str, Any]) -> str:
    """What servers ask besides floors and ceilings; their spread is in the table."""
    words = ["floors"] if tiers["local_mb"]["max"] else []
    words += ["ceilings"] if tiers["alpha"] else []
    words += [f"no ceiling: {tiers['no_ceiling']:,}"] if tiers["no_ceiling"] else []
    if tiers["groups"]:
        levels = ", ".join(f"{count:,} over different {level}s" for level, count in tiers["spread"].items() if count)
        words.append(f"{tiers['replicas']:,} replicas in {tiers['groups']:,} groups{', ' if levels else ''}{levels}")
    words += [f"not {tier}: {count:,}" for tier, count in tiers["forbidden"].items() if count]
    return "; ".join(words) or "nothing asked"


def _gpus(asked: dict[str, Any]) -> str:
    sizes = ", ".join(f"{size}: {jobs:,}" for size, jobs in asked["sizes"].items())
    words = [f"{asked['jobs']:,} jobs ask for {asked['gpus']:,.6g} ({sizes} jobs)"]
    if asked["shared"]:
        parts = ", ".join(f"{milli}: {jobs:,}" for milli, jobs in asked["fragments"].items())
        words.append(f"{asked['shared']:,} for parts (1/1000 of a GPU, the commonest: {parts} jobs)")
    if asked["slices"]:
        words.append(f"{asked['slices']:,} for slices")
    if asked["models"]:
        words.append("models: " + ", ".join(f"{name}: {jobs:,}" for name, jobs in asked["models"].items()))
    return "; ".join(words)


def _spreads(contents: dict[str, Any]) -> Table:
    table = grid("Sizes and times", [""], _SPREAD)
    table.padding = (0, 1, 0, 0)
    rows = {
        "cores": "cores of a job",
        "memory_mb": "MB of a task",
        "local_mb": "… of it local",
        "alpha": "ceiling/remote",
        "run_s": "run time",
        "request_s": "requested",
        "accuracy": "run/requested",
    }
    devices, deadlines = contents["asks"]["devices"], contents["asks"]["deadlines"]
    asked = {f"each {name}": found["each"] for name, found in devices.items() if found["jobs"]}
    asked |= {"over_run": deadlines["over_run"]} if deadlines else {}
    rows |= {key: key.removeprefix("each ") for key in asked} | {"over_run": "due after/run"}
    for key, label in rows.items():
        spread = asked.get(key, contents.get(key, (contents["tiers"] or {}).get(key)))
        if spread is None or (key.endswith("_mb") and spread["max"] == 0):
            continue
        table.add_row(label, *(_cell(key, spread[name]) for name in _SPREAD))
    return table


def _cell(key: str, value: float) -> str:
    if key in _TIMES:
        return seconds_text(value)
    if key in ("accuracy", "alpha", "over_run"):
        return f"{value:,.4g}"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def _memory(bands: list[dict[str, Any]]) -> Table:
    table = grid("Memory of a task", [""], ["jobs", "task-hours"])
    for band in bands:
        if band["jobs"]:
            end = "GB or more" if band["to_gb"] is None else f"to {band['to_gb']} GB"
            table.add_row(f"{band['from_gb']} {end}", f"{band['jobs']:.1%}", f"{band['task_hours']:.1%}")
    return table


def _arrivals(arrivals: dict[str, Any]) -> Group:
    lines = [Text("Submissions by hour", style="bold") + Text(f" ({arrivals['clock']})", style="dim not bold")]
    lines.append(Text(f"0h {_bars(arrivals['hour'])} 24h   most {max(arrivals['hour']):,}"))
    if arrivals["weekday"]:
        days = arrivals["weekday"]
        lines.append(Text("   ".join(f"{day[:2]} {count:,}" for day, count in days.items())))
    return Group(*lines)


def _bars(counts: list[int]) -> str:
    most = max(counts) or 1
    return "".join(_BARS[-(-count * (len(_BARS) - 1) // most)] for count in counts)


def _rules(rules: list[dict[str, Any]], title: str) -> Table:
    table = grid(title, [], ["jobs"])
    table.add_column("rule", no_wrap=True)
    table.add_column("what it says")
    for rule in rules:
        example = f" Such as {rule['example']}." if rule.get("example") else ""
        table.add_row(f"{rule['jobs']:,}", escape(rule["rule"]), escape(rule["sentence"] + example))
    return table


def _missing(missing: dict[str, int], kept: int) -> Table:
    table = grid("Not in the input", ["field"], ["jobs without it"])
    for field, count in missing.items():
        table.add_row(escape(field), "all" if count == kept else f"{count:,}")
    return table
