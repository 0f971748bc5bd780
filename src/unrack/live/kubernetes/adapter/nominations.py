"""Pods that wait until others have made room: their status names the node, which ``kubectl get pods -o wide`` shows."""

from __future__ import annotations

from contextlib import suppress

from unrack.errors import RunError
from unrack.live.kubernetes.adapter.picture import Picture
from unrack.live.kubernetes.client.connection import Connection
from unrack.live.kubernetes.client.objects import PODS
from unrack.live.kubernetes.client.orders import patch
from unrack.live.kubernetes.gangs.starting import Members


class Nominations:
    """Says it, once for each node, if the server takes it.

    Parameters
    ----------
    picture
        The pods.
    """

    def __init__(self, picture: Picture) -> None:
        self._picture, self._of = picture, dict[str, str]()

    async def say(self, connection: Connection, members: Members) -> None:
        """Pods wait for room on nodes; ``""``: they do not any more."""
        self._of = {key: node for key, node in self._of.items() if key in self._picture.pods}
        for key, node in members:
            pod = self._picture.pods.get(key)
            if pod is None or pod.spec.node_name or self._of.get(key, "") == node:
                continue
            self._of[key] = node
            changes = {"metadata": {"uid": pod.metadata.uid}, "status": {"nominatedNodeName": node or None}}
            with suppress(RunError):  # it is but a word to people
                await patch(connection, PODS, changes, pod.metadata.name, pod.metadata.namespace, "status")
