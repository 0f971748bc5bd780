"""Where the API server is and who asks it: files as kubectl has them, and pods."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest
from stand_in_api import StandInApi, pod, said

from unrack.errors import InputError
from unrack.live.kubernetes.client.access import Access, access_here
from unrack.live.kubernetes.client.connection import Connection
from unrack.live.kubernetes.client.objects import PODS


def config(folder: Path, *, name: str = "config", user: Any = None, cluster: Any = None, **keys: Any) -> Path:
    content = {
        "current-context": "box",
        "clusters": [{"name": "box", "cluster": {"server": "http://127.0.0.1:8001/", **(cluster or {})}}],
        "users": [{"name": "ann", "user": {"token": "abc"} if user is None else user}],
        "contexts": [{"name": "box", "context": {"cluster": "box", "user": "ann", "namespace": "work"}}],
        **keys,
    }
    path = folder / name
    path.write_text(json.dumps(content))
    return path


def test_a_file_says_server_token_and_namespace(tmp_path: Path) -> None:
    access = access_here(config(tmp_path))
    assert (access.server, access.token(), access.namespace) == ("http://127.0.0.1:8001", "abc", "work")


def test_files_are_those_of_the_environment_then_of_home_then_the_pod(tmp_path: Path) -> None:
    home, other, account = tmp_path / "home", tmp_path / "other", tmp_path / "account"
    for folder in (home / ".kube", other, account):
        folder.mkdir(parents=True)
    config(home / ".kube", cluster={"server": "http://home"})
    said_by = config(other, cluster={"server": "http://other"})
    (account / "token").write_text("first\n")
    (account / "namespace").write_text("mine")
    pod_keys = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443", "HOME": str(tmp_path)}
    both = {"HOME": str(home), "KUBECONFIG": str(said_by), **{key: pod_keys[key] for key in list(pod_keys)[:2]}}
    assert access_here(environment=both).server == "http://other"
    assert access_here(environment={**both, "KUBECONFIG": ""}).server == "http://home"
    with pytest.raises(InputError, match=r"ca\.crt"):
        access_here(environment=pod_keys, account=account)
    bundle = Path(__import__("ssl").get_default_verify_paths().openssl_cafile)
    (account / "ca.crt").write_bytes(bundle.read_bytes() if bundle.is_file() else b"")
    if not bundle.is_file():
        pytest.skip("no certificates on this machine")
    access = access_here(environment=pod_keys, account=account)
    assert (access.server, access.namespace, access.token()) == ("https://[fd00::1]:6443", "mine", "first")
    (account / "token").write_text("second")
    assert access.token() == "second"
    with pytest.raises(InputError, match="wanted --kubeconfig"):
        access_here(environment={"HOME": str(tmp_path)})


def test_of_several_files_the_first_that_says_something_counts(tmp_path: Path) -> None:
    users = config(tmp_path, name="users", clusters=[], contexts=[], **{"current-context": None})
    rest = config(tmp_path, name="rest", user={"token": "other"})
    access = access_here(environment={"KUBECONFIG": f"{users}:{rest}"})
    assert (access.token(), access.server) == ("abc", "http://127.0.0.1:8001")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"user": {"exec": {"command": "aws"}}}, "users ann, exec|user ann, exec"),
        ({"user": {"auth-provider": {"name": "gcp"}}}, "auth-provider"),
        ({"user": {"username": "a", "password": "b"}}, "username"),
        ({"user": {"token": "a", "as": "b"}}, "ann, as:"),
        ({"user": {"tokenFile": "nowhere"}}, "nowhere: got No such file"),
        ({"user": {"token": 3}}, "token: got 3, wanted a text"),
        ({"cluster": {"server": "127.0.0.1"}}, "wanted https://HOST:PORT"),
        ({"cluster": {"proxy-url": "http://p"}}, "proxy"),
        ({"current-context": "other"}, "none of the name 'other', wanted"),
        ({"current-context": ""}, "current-context: got nothing"),
        ({"users": []}, "none of the name 'ann'"),
        ({"clusters": [{"name": 3}]}, "clusters"),
        ({"cluster": {"server": "https://h", "certificate-authority-data": "%%"}}, "base64"),
        ({"cluster": {"server": "https://h", "certificate-authority-data": "eHl6"}}, "certificates as PEM"),
        ({"cluster": {"server": "https://h"}, "user": {"client-certificate-data": "eHl6"}}, "both, or none"),
        (
            {
                "cluster": {"server": "https://h"},
                "user": {"client-certificate-data": "eHl6", "client-key-data": base64.b64encode(b"x").decode()},
            },
            "a certificate and its key",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_and_says_where(tmp_path: Path, keys: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        access_here(config(tmp_path, **keys))


@pytest.mark.parametrize(
    "text", ["", "just text", "a: [", "- 1", "a: &a [*a, *a]\nclusters: *a", "\x00", "clusters: 2000-13-45"]
)
def test_a_file_that_is_no_kubeconfig_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(InputError, match="config"):
        access_here(path)


def test_a_token_of_a_file_is_read_again_when_the_server_does_not_know_it_any_more(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")

    async def answer(request: Any) -> Any:
        known = request.headers["Authorization"] == f"Bearer {token.read_text()}"
        return await said(200 if known else 401, pod("a", 1))(request)

    async def work() -> list[str]:
        async with StandInApi(answer) as api:
            async with Connection(Access(api.access.server, token_file=token)) as connection:
                await connection.read(PODS, "a", "default")
                token.write_text("new")
                with pytest.raises(Exception, match="401"):
                    await connection.read(PODS, "a", "default")
                await connection.read(PODS, "a", "default")
            return [asked.headers["Authorization"] for asked in api.asked]

    assert asyncio.run(work()) == ["Bearer old", "Bearer old", "Bearer new"]
