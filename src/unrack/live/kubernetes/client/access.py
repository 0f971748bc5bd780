"""Where an API server is, and the account that asks it: of a kubeconfig, or the service account of this pod."""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from unrack.errors import InputError

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_LOGINS = ("exec", "auth-provider", "username", "password", "as", "as-groups", "as-uid", "as-user-extra")
"""Ways to log in that are not taken."""


@dataclass(frozen=True)
class Access:
    """A server and the account that asks it."""

    server: str  # https://HOST:PORT, without a slash at the end
    namespace: str = "default"
    tls: ssl.SSLContext | None = None  # of a server that is asked by https
    tls_name: str | None = None  # the name that its certificate is to have, if that is not its host
    said_token: str = ""  # "": none, or that of token_file
    token_file: Path | None = None  # one that changes; it is read again

    def token(self) -> str:
        """The token, as it is now; ``""``: none.

        Raises
        ------
        InputError
            Its file cannot be read, or holds none.
        """
        if self.token_file is None:
            return self.said_token
        token = _read(self.token_file, "token").decode("ascii", "replace").strip()
        if not token or not token.isprintable() or not token.isascii():
            raise InputError(str(self.token_file), "no token", "the token of a service account or user")
        return token


def access_here(
    kubeconfig: Path | None = None,
    context: str | None = None,
    environment: Mapping[str, str] | None = None,
    account: Path = _ACCOUNT,
) -> Access:
    """How the API server is reached from here.

    By the file that is named, else by those of ``KUBECONFIG`` or ``~/.kube/config``, else as the pod that this is.

    Parameters
    ----------
    kubeconfig, context
        The file, and which of its contexts; ``None``: its own current one.
    environment
        ``None``: that of this process.
    account
        Where a pod finds the token of its service account.

    Raises
    ------
    InputError
        There is none of them, or one that cannot be used: what was got and wanted, and where.
    """
    kept = os.environ if environment is None else environment
    named = [kubeconfig] if kubeconfig else [Path(one) for one in kept.get("KUBECONFIG", "").split(os.pathsep) if one]
    files = named or [
        path for path in [Path(kept.get("HOME", "~")).expanduser() / ".kube" / "config"] if path.is_file()
    ]
    if files:
        return _configured([path.expanduser() for path in files], context)
    host, port = kept.get("KUBERNETES_SERVICE_HOST", ""), kept.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        want = "--kubeconfig FILE, KUBECONFIG, ~/.kube/config, or a pod with a service account"
        raise InputError("the API server of Kubernetes", "nothing that says where it is", want)
    if context is not None:
        raise InputError("--context", repr(context), "a kubeconfig that has it")
    server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    namespace = account / "namespace"
    found = namespace.read_text(encoding="utf-8").strip() if namespace.is_file() else ""
    access = Access(server, found or "default", _tls(account / "ca.crt", server), token_file=account / "token")
    access.token()
    return access


class Named(msgspec.Struct):
    """An entry of a kubeconfig."""

    name: str
    cluster: dict[str, Any] | None = None
    user: dict[str, Any] | None = None
    context: dict[str, Any] | None = None


class Config(msgspec.Struct, rename="kebab"):
    """What of a kubeconfig is read."""

    current_context: str | None = None
    clusters: list[Named] | None = None
    users: list[Named] | None = None
    contexts: list[Named] | None = None


def _configured(files: list[Path], wanted: str | None) -> Access:
    """The access that kubeconfigs describe; of what several say, the first counts."""
    read = [(path, _config(path)) for path in files]
    where = os.pathsep.join(map(str, files))

    def entry(kind: str, name: str) -> tuple[str, Path, dict[str, Any]]:
        listed = [(path, one) for path, config in read for one in getattr(config, f"{kind}s") or ()]
        for path, one in listed:
            if one.name == name:
                return f"{path}, {kind} {name}", path.parent, getattr(one, kind) or {}
        raise InputError(f"{where}, {kind}s", f"none of the name {name!r}", f"one of {_names(listed)}")

    current = wanted or next((config.current_context for _, config in read if config.current_context), "")
    if not current:
        raise InputError(f"{where}, current-context", "nothing", "the name of a context, here or with --context")
    at, _, context = entry("context", current)
    at_cluster, beside, cluster = entry("cluster", _text(context, "cluster", at))
    server = _text(cluster, "server", at_cluster).rstrip("/")
    if not server.startswith(("https://", "http://")) or not server.partition("://")[2]:
        raise InputError(f"{at_cluster}, server", repr(server)[:80], "https://HOST:PORT")
    if cluster.get("proxy-url"):
        raise InputError(f"{at_cluster}, proxy-url", "a proxy", "a server that is reached directly")
    user: dict[str, Any] = {}
    at_user, beside_user = at, beside
    if context.get("user"):
        at_user, beside_user, user = entry("user", _text(context, "user", at))
    for login in _LOGINS:
        if user.get(login):
            raise InputError(
                f"{at_user}, {login}", "a login that is not taken", "token, tokenFile or client-certificate"
            )
    tls = None
    if server.startswith("https://"):
        authority = _content(cluster, "certificate-authority", beside, at_cluster)
        tls = _tls(authority, at_cluster, checked=cluster.get("insecure-skip-tls-verify") is not True)
        certificate = _content(user, "client-certificate", beside_user, at_user)
        key = _content(user, "client-key", beside_user, at_user)
        if (certificate is None) != (key is None):
            raise InputError(at_user, "one of client-certificate and client-key", "both, or none")
        if certificate is not None and key is not None:
            _identify(tls, certificate, key, at_user)
    token, file = user.get("token"), user.get("tokenFile")
    access = Access(
        server,
        _text(context, "namespace", at) if context.get("namespace") else "default",
        tls,
        _text(cluster, "tls-server-name", at_cluster) if cluster.get("tls-server-name") else None,
        _text(user, "token", at_user) if token else "",
        beside_user / _text(user, "tokenFile", at_user) if file and not token else None,
    )
    access.token()
    return access


def _config(path: Path) -> Config:
    content = _read(path, "kubeconfig")
    try:
        return msgspec.yaml.decode(content, type=Config)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InputError(str(path), " ".join(str(error).split())[:200], "a kubeconfig") from None


def _names(listed: list[tuple[Path, Named]]) -> str:
    return ", ".join(one.name for _, one in listed[:20]) or "one or more that the file does not have"


def _text(of: Mapping[str, Any], key: str, where: str) -> str:
    value = of.get(key)
    if not isinstance(value, str) or not value:
        raise InputError(f"{where}, {key}", repr(value)[:80] if value else "nothing", "a text")
    return value


def _content(of: Mapping[str, Any], key: str, beside: Path, where: str) -> bytes | None:
    """What stands in KEY-data, or in the file that KEY names; ``None``: neither is there."""
    if of.get(f"{key}-data"):
        try:
            return base64.b64decode(_text(of, f"{key}-data", where), validate=True)
        except binascii.Error:
            raise InputError(f"{where}, {key}-data", "something else", "base64") from None
    return _read(beside / _text(of, key, where), key) if of.get(key) else None


def _read(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error), f"a {what} that can be read") from None


def _tls(authority: bytes | Path | None, where: str, *, checked: bool = True) -> ssl.SSLContext:
    """TLS to a server with a certificate that this authority signed; ``None``: one that the machine trusts."""
    content = _read(authority, "certificate") if isinstance(authority, Path) else authority
    try:
        context = ssl.create_default_context(cadata=None if content is None else content.decode("ascii"))
    except (ssl.SSLError, ValueError):
        raise InputError(f"{where}, certificate-authority", "something else", "certificates as PEM") from None
    if not checked:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _identify(tls: ssl.SSLContext, certificate: bytes, key: bytes, where: str) -> None:
    """Let the server know us by a certificate; it is in a file of ours alone for as long as it is read."""
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:  # mode 0600
        file.write(certificate.rstrip() + b"\n" + key)
        file.flush()
        try:
            tls.load_cert_chain(file.name)
        except (ssl.SSLError, ValueError) as error:
            got = getattr(error, "reason", None) or str(error)
            raise InputError(f"{where}, client-certificate", str(got), "a certificate and its key as PEM") from None
