"""``unrack slurm predict``: when each waiting job will start, under the present policy and under others."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrack.cli.slurm.options import HeldByAdmin, Partitions, Timeout, Unlimited, longest_us
from unrack.errors import InputError

if TYPE_CHECKING:
    from unrack.live.slurm.prediction.forecast import Forecast
    from unrack.live.slurm.prediction.hindsight import Hindsight


def predict(
    policy: Annotated[
        list[str] | None,
        typer.Option(metavar="POLICY", help="Under this policy as well: a name, or FILE.py:NAME; repeatable."),
    ] = None,
    from_: Annotated[
        Path | None,
        typer.Option("--from", metavar="NOW.toml", help="Predict from what 'snapshot' wrote; no Slurm needed."),
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Learn run times from this: what sacct printed, or any trace with requests."),
    ] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Append the predictions, and the starts seen now, to a file.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|TIME",
            help="Compare earlier predictions with what happened: of a file, or of the --save file since '2 h' ago.",
        ),
    ] = None,
    partition: Partitions = None,
    draws: Annotated[int, typer.Option(min=1, max=10_000, help="How often learnt run times are drawn.")] = 50,
    seed: Annotated[int, typer.Option(min=0, help="Of the draws.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="How many jobs the tables show.")] = 40,
    unlimited: Unlimited = "7 d",
    held_by_admin: HeldByAdmin = False,
    timeout: Timeout = 30.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Tell when each waiting job will start, with a range. Needs no rights, and changes nothing in Slurm."""
    from unrack.live.slurm.prediction.forecast import forecast_from, forecast_now
    from unrack.live.slurm.prediction.saved import save as append

    if from_ is not None and (partition or held_by_admin):
        raise InputError("--from", "beside --partition or --held-by-admin", "a snapshot that was taken with these")
    from rich.console import Console

    longest = longest_us(unlimited)
    with Console(stderr=True).status("simulating what comes next"):  # nothing where nobody looks
        if from_ is not None:
            made = forecast_from(from_, policy or [], history, draws=draws, seed=seed)
        else:
            made = forecast_now(
                policy or [], history, save, partitions=partition, longest_us=longest,
                held_by_admin=held_by_admin, timeout_s=timeout, draws=draws, seed=seed,
            )  # fmt: skip
    looked_back = None if since is None else _hindsight(since, save, made)
    if save is not None:
        append(save, made.saved)
    if as_json:
        typer.echo(json.dumps(_json(made, looked_back), indent=2, ensure_ascii=False))
        return
    from unrack.cli.slurm.predict_page import page

    console = Console(highlight=False)
    for part in page(made, looked_back, jobs, console.width):
        console.print(part)


def _hindsight(since: str, save: Path | None, made: Forecast) -> list[Hindsight]:
    """What became of earlier predictions: of a file, or of the last while in the file that they are saved to."""
    from unrack.live.slurm.prediction.hindsight import hindsight
    from unrack.live.slurm.prediction.saved import load_saved, recent
    from unrack.units import SECOND_US, time_us

    if Path(since).is_file():
        return hindsight(load_saved(Path(since)), made.started)
    try:
        span_s = time_us(since) / SECOND_US
    except ValueError:
        raise InputError(
            "--since", repr(since), "a file that 'predict --save' wrote, or a time such as '2 h'"
        ) from None
    if save is None or not save.is_file():
        raise InputError("--since", repr(since), "--save FILE beside it, the file that predictions were saved to")
    return hindsight(recent(load_saved(save), made.at_s - span_s), made.started)


def _json(made: Forecast, looked_back: list[Hindsight] | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "at_s": made.at_s,
        "source": made.source,
        "learnt_from": {"runs": made.learnt.runs, "source": made.learnt.source},
        "notes": list(made.notes),
        "waits_for_more": [waiting._asdict() for waiting in made.aside],
        "predictions": [
            {"policy": prediction.policy, "starts": [start._asdict() for start in prediction.starts]}
            for prediction in made.predictions
        ],
    }
    if looked_back is not None:
        found["hindsight"] = [{**asdict(one), "bias": one.bias} for one in looked_back]
    return found
