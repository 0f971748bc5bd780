"""``unrack slurm predict``: when each waiting job will start, under the present policy and under others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrack.cli.live.driver import Unlimited, longest_us
from unrack.cli.live.prediction import Draws, From, History, OfDraws, Policies, Save, Shown, Since, tell
from unrack.cli.options import Json
from unrack.cli.slurm.options import HeldByAdmin, Partitions, Timeout
from unrack.errors import InputError

if TYPE_CHECKING:
    from unrack.live.prediction.forecast import Forecast


def predict(
    policy: Policies = None,
    from_: From = None,
    history: History = None,
    save: Save = None,
    since: Since = None,
    partition: Partitions = None,
    draws: Draws = 50,
    seed: OfDraws = 0,
    jobs: Shown = 40,
    unlimited: Unlimited = "7 d",
    held_by_admin: HeldByAdmin = False,
    timeout: Timeout = 30.0,
    as_json: Json = False,
) -> None:
    """Tell when each waiting job will start, with a range. Needs no rights, and changes nothing in Slurm."""
    if from_ is not None and (partition or held_by_admin):
        raise InputError("--from", "beside --partition or --held-by-admin", "a snapshot that was taken with these")
    longest = longest_us(unlimited)

    def made() -> Forecast:
        from unrack.live.prediction.forecast import forecast_from
        from unrack.live.slurm.prediction.forecast import forecast_now

        if from_ is not None:
            return forecast_from(from_, policy or [], history, draws=draws, seed=seed)
        return forecast_now(
            policy or [], history, save, partitions=partition, longest_us=longest,
            held_by_admin=held_by_admin, timeout_s=timeout, draws=draws, seed=seed,
        )  # fmt: skip

    tell(made, save, since, jobs, as_json)
