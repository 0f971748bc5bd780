"""``unrack place``: servers on tiers of memory, in one shot.

``unrack tiles``: cores of a die that are close together; and dies laid out as a torus.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrack.cli import Json, presets, print_json, print_lines, say_when_compiling, seconds_of, write
from unrack.errors import ClusterError, InputError

if TYPE_CHECKING:
    from unrack import Cluster
    from unrack_papers.servers.answer import PlacedServers
    from unrack_papers.torus import TorusPlacement


_WRITTEN = {"rows": "ROWSxCOLUMNS", "columns": "ROWSxCOLUMNS", "k": "CORES", "taken": "--taken"}
"""What ``unrack tiles`` calls the arguments of :func:`unrack_papers.torus.best_tiles`."""
LONGEST_SIDE = 32
"""The most rows, and the most columns, of cores on a die, as in cluster files."""


def tiles(
    torus: Annotated[str, typer.Argument(metavar="ROWSxCOLUMNS", help="The torus, such as 7x7.")],
    cores: Annotated[int, typer.Argument(metavar="CORES", help="How many cores are wanted.")],
    taken: Annotated[
        str, typer.Option(metavar="IDS", help="Cores in use, numbered row by row from 0, such as 0-3,7.")
    ] = "",
    rule: Annotated[str, typer.Option(help="best (proven), quick or first-fit.")] = "best",
    time_limit: Annotated[
        str | None, typer.Option(metavar="TIME", help="With the rule best: how long it may compute, such as '10 s'.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Choose cores of a die that are close together: the least sum of hops over all pairs, on a torus."""
    from unrack_papers.torus import best_tiles, first_fit_tiles, quick_tiles

    say_when_compiling()
    rows, columns = sides(torus, "ROWSxCOLUMNS")
    busy = numbers(taken, "--taken")
    if rule not in ("best", "quick", "first-fit"):
        raise InputError("--rule", repr(rule), "best, quick or first-fit")
    if time_limit is not None and rule != "best":
        raise InputError("--time-limit", repr(time_limit), "--rule best, which searches")
    limit_s = None if time_limit is None else seconds_of("--time-limit", time_limit)
    try:
        if rule == "best":
            found = best_tiles(rows, columns, cores, busy, limit_s=limit_s)
        else:
            found = (quick_tiles if rule == "quick" else first_fit_tiles)(rows, columns, cores, busy)
    except InputError as error:
        raise InputError(_WRITTEN[error.where], error.got, error.want) from None
    if as_json:
        known = {"distance": found.distance, "bound": found.bound, "optimal": found.optimal, "nodes": found.nodes}
        known |= {"cut": True} if found.cut else {}
        print_json({"tiles": found.tiles.tolist(), **known}, None)
        return
    _draw(found, rows, columns, busy)


def sides(text: str, where: str) -> tuple[int, int]:
    """Rows and columns, from text such as ``"4x7"``; anything else is an InputError."""
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isdecimal() and len(part) < 9 for part in parts):
        raise InputError(where, repr(text), "ROWSxCOLUMNS, such as 4x7")
    return int(parts[0]), int(parts[1])


def numbers(text: str, where: str) -> list[int]:
    """Whole numbers, from text such as ``"0-3,7"``; anything else is an InputError."""
    found: list[int] = []
    for part in filter(None, text.replace(" ", "").split(",")):
        first, dash, last = part.partition("-")
        if not all(end.isdecimal() and len(end) < 9 for end in (first, last if dash else first)):
            raise InputError(where, repr(part), "numbers and ranges, such as 0-3,7")
        if dash and int(last) < int(first):
            raise InputError(where, repr(part), "a range from the lower to the higher number, such as 0-3")
        if dash and int(last) - int(first) > 10_000:
            raise InputError(where, repr(part), "a range of at most 10 000")
        found += range(int(first), int(last if dash else first) + 1)
    return found


def _draw(found: TorusPlacement, rows: int, columns: int, busy: list[int]) -> None:
    chosen, gone = set(found.tiles.tolist()), set(busy)
    marks = ["■" if tile in chosen else "×" if tile in gone else "·" for tile in range(rows * columns)]
    for row in range(rows):
        typer.echo(" ".join(marks[row * columns : (row + 1) * columns]))
    proof = "proven the least" if found.optimal else f"no set has less than {found.bound}"
    proof += "; the time limit cut the search: another run may have another answer" if found.cut else ""
    print_lines([f"cores {','.join(map(str, sorted(chosen)))}: {found.distance} hops over all pairs, {proof}"])


def with_torus(cluster: Cluster, rows: int, columns: int, where: str) -> Cluster:
    """The same cluster, with the cores of every die of every node on a torus.

    A ClusterError if a side is too long, or a node's cores are not a whole number of dies.
    """
    import numpy as np

    if not (1 <= rows <= LONGEST_SIDE and 1 <= columns <= LONGEST_SIDE):
        raise ClusterError(where, f"{rows} x {columns}", f"sides from 1 to {LONGEST_SIDE}")
    rest = np.flatnonzero(cluster.cores % (rows * columns))
    if len(rest):
        want = f"{rows * columns} cores on a die to divide the {cluster.cores[rest[0]]} of node {rest[0]}"
        raise ClusterError(where, f"{rows} x {columns}", want)
    torus = np.where((cluster.cores > 0)[:, None], np.array([rows, columns], np.int64), 0)
    return replace(cluster, torus=torus)


KEYS = ("pools", "clusters")
"""What a file as published has of a data centre."""
NOT_ALL = 3
"""Exit status: the answer is there, and some servers have no place in it."""
MOST = 10
"""Servers that are listed without --all."""
CUT = "the time limit cut the search: another run may have another answer"
ASKED = ("servers", "most_clusters")
"""Keys of a request."""


def place(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="[CLUSTER] REQUEST",
            help="TOML or JSON: the data centre and the servers asked for, or one file with both (such as the "
            "published JSON with pools, clusters and servers).",
        ),
    ],
    cluster: Annotated[
        str | None,
        typer.Option(metavar="FILE|PRESET", help="The data centre: a file or a preset.", autocompletion=presets),
    ] = None,
    policy: Annotated[
        str, typer.Option(help="slo (the paper's allocator), first-fit, best-fit, or optimal (all at once).")
    ] = "slo",
    time_limit: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Of optimal: how long it may compute, such as '5 min'; waiting for a busy machine and compiling do "
            "not count. Without one its work is counted, about a minute, and the answer is the same on any machine.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of optimal.", min=0)] = 0,
    since: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Where servers are already: what --json printed earlier."),
    ] = None,
    moves: Annotated[int | None, typer.Option(help="Of optimal with --from: how many servers may move.", min=0)] = None,
    resplit: Annotated[
        bool, typer.Option("--resplit", help="Of --moves: servers that stay may have their memory split anew.")
    ] = False,
    cores: Annotated[
        str | None,
        typer.Option(metavar="RULE", help="Also say which cores of its node a server has: best, quick or first-fit."),
    ] = None,
    torus: Annotated[
        str | None, typer.Option(metavar="ROWSxCOLUMNS", help="How the cores of a die are laid out, such as 4x7.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Also draw it: clusters, pools, servers.")
    ] = None,
    order: Annotated[
        str,
        typer.Option(help="Of one at a time: request, or slo-ratio (largest floor // ceiling first, as the authors)."),
    ] = "request",
    explain: Annotated[bool, typer.Option("--explain", help="Say of every server why it is where it is.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="List every server.")] = False,
    as_json: Json = False,
) -> None:
    """Place servers with SLOs on the pools of a data centre with tiers of memory: which cluster, how much of what.

    Exit status: 0, all servers have a place; 3, some have none, each with its reason; 2, the input is wrong.
    """
    from unrack_papers.servers.one_shot import place_request
    from unrack_papers.servers.request import read_request

    say_when_compiling()
    limit_s = None if time_limit is None else seconds_of("--time-limit", time_limit)
    if limit_s == 0:
        raise InputError("--time-limit", repr(time_limit), "more than 0")
    centre, content = _inputs(files, cluster)
    request = read_request(content, str(files[-1]))
    if torus is not None:
        if cores is None:
            raise InputError("--torus", torus, "--cores beside it")
        centre = with_torus(centre, *sides(torus, "--torus"), "--torus")
    earlier = None if since is None else _read(since)
    placed = place_request(
        centre, request, policy, limit_s=limit_s, seed=seed, earlier=earlier, where=str(since), moves=moves,
        resplit=resplit, cores=cores, order=order, explain=explain,
    )  # fmt: skip
    if picture is not None:
        from unrack_papers.servers.picture import picture as drawn

        write(picture, drawn(placed), "--picture")
    if as_json:
        typer.echo(_text(placed.as_json()))
    else:
        _show(placed, None if everything or explain else MOST)
    if len(placed.unplaced):
        raise typer.Exit(NOT_ALL)


def _inputs(files: list[Path], cluster: str | None) -> tuple[Cluster, dict[str, Any]]:
    """The data centre, and the content of the last file, which has the request."""
    from unrack import Cluster
    from unrack.cluster import PRESETS
    from unrack_papers.servers.published_json import is_published

    if len(files) > 2 or (len(files) == 2 and cluster is not None):
        raise InputError("unrack place", f"{len(files)} files", "a data centre and a request, or one file with both")
    content = _read(files[-1])
    named = str(files[0]) if len(files) == 2 else cluster
    if named is None:
        return _centre(content, files[-1]), content
    if named in PRESETS and not Path(named).exists():
        centre = Cluster.preset(named)
    else:
        centre = _centre(_read(Path(named)), Path(named))
    _refuse_others(content, (*ASKED, *KEYS) if is_published(content) else ASKED, files[-1])
    return centre, content


def _read(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(path), getattr(error, "strerror", None) or str(error), "a readable text file") from None
    try:
        content = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:  # both kinds of syntax error
        raise InputError(str(path), str(error), f"valid {'TOML' if path.suffix == '.toml' else 'JSON'}") from None
    if not isinstance(content, dict):
        raise InputError(str(path), repr(content)[:60], "a table with keys")
    return content


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} twice in one object")
    return found


def _centre(content: dict[str, Any], path: Path) -> Cluster:
    from unrack import Cluster
    from unrack_papers.servers.published_json import is_published, published_cluster

    if is_published(content):
        _refuse_others(content, (*ASKED, *KEYS), path)
        return published_cluster(content, path.stem, str(path))
    keys = {key: value for key, value in content.items() if key not in ASKED}
    if not keys:
        raise InputError(str(path), "no data centre", "one in this file, before it, or with --cluster")
    return Cluster.from_dict({"name": path.stem, **keys}, str(path))


def _refuse_others(content: dict[str, Any], known: tuple[str, ...], path: Path) -> None:
    for key in content:
        if key not in known:
            raise InputError(f"{path}, {key}", "an unknown key", f"one of {', '.join(known)}")


def _text(answer: dict[str, Any]) -> str:
    if not answer["servers"]:
        return json.dumps(answer, indent=1)
    lines = ",\n  ".join(json.dumps(server) for server in answer["servers"])
    head = json.dumps({**answer, "servers": []}, indent=1)
    return head.removesuffix("[]\n}") + f"[\n  {lines}\n ]\n}}"


def _show(placed: PlacedServers, most: int | None) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    answer = placed.as_json()
    tiers = placed.cluster.tiers
    assert tiers is not None
    console = Console(markup=False)
    short = len(answer["unplaced"])
    servers = answer["servers"]
    console.print(
        f"{placed.policy}: {len(servers) - short} of {len(servers)} servers in {answer['clusters_used']} of "
        f"{answer['clusters']} clusters, {answer['price_per_hour']:,.2f} an hour"
    )
    proven = {"optimal": "proven optimal", "feasible": "not proven optimal"}.get(placed.status)
    bound = f"no split within the SLOs costs less than {placed.bound / tiers.price_scale / 1024:,.2f} an hour"
    if placed.bound_clusters is not None:
        bound = f"at least {placed.bound_clusters} clusters, and then " + bound
    console.print(f"bound: {bound}" + (f"; {proven}" if proven else "") + (f"; {CUT}" if placed.cut else ""))
    broken = answer["violations"]
    console.print(f"SLOs broken: local {broken['local']}, remote {broken['remote']}")
    if placed.core_sets is not None:
        console.print(
            f"hops between the cores of each server, all pairs: {answer['core_distance']:,} "
            f"(on empty dies at least {answer['core_distance_least']:,}); "
            f"pairs on different dies: {answer['cores_apart']:,}"
        )
    if placed.moves is not None:
        moved = len({step.server for step in placed.moves if step.before not in (-1, step.cluster)})
        console.print(
            f"servers that move: {moved}; {placed.copied_mb:,} MB to copy, "
            f"in {len(placed.moves)} steps of which each fits when its turn comes"
        )
        for step in answer["moves"][:most]:
            to = "split anew" if step["from"] == step["to"] else f"to {step['to']}"
            told = f"cluster {step['from']} {to}" if step["from"] is not None else f"comes to cluster {step['to']}"
            console.print(f"  server {step['id']}: {told}", highlight=False)
        if most is not None and len(placed.moves) > most:
            console.print(f"  … {len(placed.moves) - most} more steps (--all; --json for programs)")
    used = placed.tier_mb()[placed.allocation.cluster >= 0].sum(axis=0)
    on = sorted({int(pool) for c in set(placed.allocation.cluster.tolist()) - {-1} for pool in placed.supply.pools(c)})
    shares = []
    for tier, name in enumerate(tiers.names):
        installed = sum(int(placed.supply.all_mb[pool]) for pool in on if tiers.tier[pool] == tier)
        shares.append(f"{name} {used[tier] / installed:.1%}" if installed else f"{name} –")
    console.print("memory in use in those clusters: " + ", ".join(shares))
    rows = sorted(servers, key=lambda server: server["cluster"] is not None) if most is not None else servers
    if any(row["reason"] for row in rows):
        for row in rows[:most]:
            split = ", ".join(f"{mb:,} MB {tier}" for tier, mb in row["tiers"].items() if mb)
            words = [f"server {row['id']}", split, row["reason"] or f"cluster {row['cluster']}"]
            console.print(": ".join(word for word in words if word), soft_wrap=True, highlight=False)
    else:
        table = Table()
        for column in ("server", "cluster", *(f"{name}, MB" for name in tiers.names), "an hour"):
            table.add_column(Text(column), justify="left" if column in ("server", "cluster") else "right")
        for row in rows[:most]:
            parts = (f"{mb:,}" for mb in row["tiers"].values())
            table.add_row(Text(str(row["id"])), Text(str(row["cluster"])), *parts, f"{row['price'] / 1024:,.2f}")
        console.print(table)
    if most is not None and len(rows) > most:
        console.print(f"… {len(rows) - most} more (--all; --json for programs)")
