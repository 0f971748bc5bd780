"""``unrack kubernetes predict``: when each waiting pod will start, under the present policy and under others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrack.cli.kubernetes.options import Context, Kubeconfig, Schedulers, Timeout, Unlimited, read_server
from unrack.cli.live.driver import longest_us
from unrack.cli.live.prediction import Draws, From, History, OfDraws, Policies, Save, Shown, Since, tell
from unrack.cli.options import Json
from unrack.errors import InputError

if TYPE_CHECKING:
    from unrack.live.prediction.forecast import Forecast


def predict(
    policy: Policies = None,
    from_: From = None,
    history: History = None,
    save: Save = None,
    since: Since = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    scheduler: Schedulers = None,
    draws: Draws = 50,
    seed: OfDraws = 0,
    jobs: Shown = 40,
    unlimited: Unlimited = "7 d",
    timeout: Timeout = 30.0,
    as_json: Json = False,
) -> None:
    """Tell when each waiting pod will start, with a range where a history is given; it only reads."""
    if from_ is not None and (kubeconfig or context or scheduler):
        raise InputError(
            "--from", "--kubeconfig, --context or --scheduler, too", "a snapshot that was taken with these"
        )
    longest = longest_us(unlimited)

    def made() -> Forecast:
        if from_ is not None:
            from unrack.live.prediction.forecast import forecast_from

            return forecast_from(from_, policy or [], history, draws=draws, seed=seed)
        reading = read_server(kubeconfig, context, timeout)
        from unrack.live.kubernetes.forecast import forecast_of

        return forecast_of(
            reading, policy or [], history, schedulers=scheduler, longest_us=longest, draws=draws, seed=seed
        )

    tell(made, save, since, jobs, as_json)
