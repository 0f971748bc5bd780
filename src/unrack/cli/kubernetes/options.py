"""Options that several commands of ``unrack kubernetes`` have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from unrack.live.kubernetes.snapshot import Reading

Kubeconfig = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Default: KUBECONFIG, ~/.kube/config, or the pod that this is.")
]
Context = Annotated[str | None, typer.Option(metavar="NAME", help="Which context of the kubeconfig.")]
Schedulers = Annotated[
    list[str] | None,
    typer.Option("--scheduler", metavar="NAME", help="Of the pods that wait only those of this scheduler; repeatable."),
]
Unlimited = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="How long a pod without activeDeadlineSeconds or unrack.io/run-time is taken to run: '7 d'.",
    ),
]
Timeout = Annotated[float, typer.Option(metavar="S", min=0.1, max=600, help="How long an answer may take.")]


def read_server(kubeconfig: Path | None, context: str | None, timeout_s: float) -> Reading:
    """All nodes and pods of the server."""
    from unrack.extras import needed_for

    with needed_for("a running Kubernetes"):
        from unrack.live.kubernetes.client.access import access_here
        from unrack.live.kubernetes.snapshot import reading_of

    return reading_of(access_here(kubeconfig, context), timeout_s)
