"""The API server as tests themselves ask it, by the standard library alone: what our client says is checked by this."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

Content = dict[str, Any]


class AdminError(Exception):
    """The server did not do it; ``code``: of HTTP."""

    def __init__(self, what: str, code: int, said: str) -> None:
        super().__init__(f"{what}: {code} {said}")
        self.code = code


class Admin:
    """Somebody who asks the API server; each thread has a connection of its own."""

    def __init__(self, port: int, authority: Path, token: str) -> None:
        self.port, self.token = port, token
        self._tls = ssl.create_default_context(cafile=str(authority))
        self._own = threading.local()

    def ask(self, method: str, path: str, body: Any = None, *, kind: str = "application/json", **query: str) -> Content:
        """The answer to a question; an AdminError if the server says no."""
        words = f"{path}?{urlencode(query)}" if query else path
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
        sent = None if body is None else json.dumps(body).encode()
        for again in (True, False):
            try:
                connection = self._connection()
                connection.request(method, words, sent, headers)
                answer = connection.getresponse()
                content = answer.read()
                break
            except (OSError, http.client.HTTPException):
                self._own.connection = None
                if not again:
                    raise
        if answer.status >= 300:
            raise AdminError(f"{method} {words}", answer.status, content.decode(errors="replace")[:400])
        return json.loads(content) if content[:1] == b"{" else {"text": content.decode(errors="replace")}

    def get(self, path: str, **query: str) -> Content:
        """Read."""
        return self.ask("GET", path, **query)

    def post(self, path: str, body: Content) -> Content:
        """Make."""
        return self.ask("POST", path, body)

    def patch(self, path: str, body: Any, kind: str = "application/merge-patch+json") -> Content:
        """Change."""
        return self.ask("PATCH", path, body, kind=kind)

    def delete(self, path: str, **options: Any) -> Content:
        """End."""
        return self.ask("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", **options})

    def delete_all(self, path: str) -> None:
        """End all of a kind at once, and wait until they are gone."""
        while items := self.get(path)["items"]:
            for item in items:
                at = item["metadata"]
                inside = f"namespaces/{at['namespace']}/" if "namespace" in at else ""
                prefix, _, plural = path.rpartition("/")
                try:
                    self.delete(f"{prefix}/{inside}{plural}/{at['name']}", gracePeriodSeconds=0)
                except AdminError as error:
                    if error.code != 404:
                        raise

    def watch(self, path: str, version: str) -> Iterator[Content]:
        """The lines of a watch, until it ends or breaks."""
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self._tls, timeout=600)
        query = urlencode({"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true"})
        try:
            connection.request("GET", f"{path}?{query}", headers={"Authorization": f"Bearer {self.token}"})
            answer = connection.getresponse()
            if answer.status >= 300:
                raise AdminError(f"watch {path}", answer.status, answer.read().decode(errors="replace")[:400])
            while line := answer.readline():
                yield json.loads(line)
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPSConnection:
        found: http.client.HTTPSConnection | None = getattr(self._own, "connection", None)
        if found is None:
            found = http.client.HTTPSConnection("127.0.0.1", self.port, context=self._tls, timeout=30)
            self._own.connection = found
        return found

    @contextmanager
    def defined(self, group: str, kind: str, version: str, approved: str = "unapproved, for tests") -> Iterator[None]:
        """A kind of objects is there, of which anything may be said; at the end it is gone, with all of them."""
        path, plural = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", f"{kind.lower()}s"
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
        metadata = {"name": f"{plural}.{group}", "annotations": {"api-approved.kubernetes.io": approved}}
        spec = {
            "group": group, "names": names, "scope": "Namespaced",
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        }  # fmt: skip
        definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
        self.post(path, {**definition, "metadata": metadata, "spec": spec})
        try:
            yield
        finally:
            self.delete(f"{path}/{metadata['name']}")
