"""What is applied to a cluster: kustomize and chart say the same, with the rights of the tests; a server takes it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from k8s_bed import KubernetesBed
from test_extender_beside_kube_scheduler import ALL, BY_TLS

from unrack.live.kubernetes.composer.site import ComposerSite
from unrack.live.kubernetes.extender.site import ExtenderSite
from unrack.live.kubernetes.site import KubernetesSite

Content = dict[str, Any]
ROOT = Path(__file__).parents[3]
BASE, CHART = ROOT / "deploy" / "kubernetes" / "base", ROOT / "deploy" / "kubernetes" / "chart"
EXTENDER = ROOT / "deploy" / "kubernetes" / "extender"
SHIPPED, SHIPPED_EXTENDER = (ROOT / "docs" / f"kubernetes-rights{of}.yaml" for of in ("", "-extender"))
PROGRAMS = {"scheduler": "run", "composer": "compose"}
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())


def objects(text: str) -> list[Content]:
    return [one for one in yaml.safe_load_all(text) if one]


def template(program: str) -> list[Content]:
    """A template of the chart with the values that it has by default: a plain stand-in for Helm's few words in it."""
    text = (CHART / "templates" / f"{program}.yaml").read_text()
    text = re.sub(r"\{\{- with .*?\{\{- end \}\}\n", "", text, flags=re.DOTALL)  # lists that are empty by default
    text = re.sub(r"\{\{- (if .*?|end) \}\}\n", "", text).replace("{{ .Release.Namespace }}", "unrack")

    def value(match: re.Match[str]) -> str:
        found: Any = VALUES
        for key in match[1].split("."):
            found = found[key]
        if match[2] and match[2].startswith("sha256sum"):
            return '"0"'
        return "\n".join(f"    {line}" for line in found.splitlines()) if match[2] else str(found)

    text = re.sub(r"\{\{ \.Values\.([\w.]+)(?: \| (sha256sum \| quote|indent 4))? \}\}", value, text)
    assert "{{" not in text
    return objects(text)


def rules_in(of: list[Content]) -> dict[str, list[Content]]:
    return {one["metadata"]["name"]: one["rules"] for one in of if one["kind"] == "ClusterRole"}


def based(program: str) -> Content:
    """The StatefulSet of the base, as kustomize makes it."""
    (found,) = objects((BASE / f"{program}.yaml").read_text())
    found["metadata"]["namespace"] = "unrack"
    found["spec"]["template"]["spec"]["containers"][0]["image"] = "unrack:0.1.0"
    return found


def all_of_base() -> list[Content]:
    rights = objects((BASE / "rights.yaml").read_text().replace("namespace: kube-system", "namespace: unrack"))
    return [*rights, *(one for program in PROGRAMS for one in template(program))]


def all_of_extender() -> list[Content]:
    rights = (EXTENDER / "rights.yaml").read_text().replace("namespace: kube-system", "namespace: unrack")
    return [*objects(rights), *template("extender")]


@pytest.mark.parametrize(
    ("copy", "shipped"),
    [
        (BASE / "rights.yaml", SHIPPED),
        (CHART / "rights.yaml", SHIPPED),
        (EXTENDER / "rights.yaml", SHIPPED_EXTENDER),
        (CHART / "rights-extender.yaml", SHIPPED_EXTENDER),
    ],
    ids=["base", "chart", "extender", "extender in the chart"],
)
def test_the_rights_are_those_that_tests_run_with(copy: Path, shipped: Path) -> None:
    assert copy.read_bytes() == shipped.read_bytes(), f"cp {shipped.relative_to(ROOT)} {copy.relative_to(ROOT)}"


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_chart_says_what_the_base_says(program: str) -> None:
    (stateful,) = (one for one in template(program) if one["kind"] == "StatefulSet")
    assert stateful["spec"]["template"]["metadata"].pop("annotations") == {"checksum/site": "0"}
    assert stateful == based(program)
    maps = {one["metadata"]["name"]: one["data"] for one in template(program) if one["kind"] == "ConfigMap"}
    kustomization = yaml.safe_load((BASE / "kustomization.yaml").read_text())
    generated = {one["name"]: one["files"] for one in kustomization["configMapGenerator"]}
    for name, data in maps.items():
        (said,) = generated[name]
        key, _, path = said.rpartition("=")
        assert data == {key or Path(path).name: (BASE / path).read_text()}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_pod_may_do_nothing_but_its_work(program: str) -> None:
    spec = based(program)["spec"]
    assert spec["replicas"] == 1
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert container["args"][:2] == ["kubernetes", PROGRAMS[program]]
    probes = {name: container[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert probes == {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
    accounts = {one["metadata"]["name"] for one in objects(SHIPPED.read_text()) if one["kind"] == "ServiceAccount"}
    assert pod["serviceAccountName"] in accounts


def test_the_site_files_can_be_read_and_listen_where_probes_ask(tmp_path: Path) -> None:
    shutil.copytree(BASE / "config", tmp_path / "config")
    scheduler = KubernetesSite.load(tmp_path / "config" / "scheduler.toml")
    text = (tmp_path / "config" / "composer.toml").read_text()
    (tmp_path / "config" / "composer.toml").write_text(text.replace("/etc/unrack-cluster/", ""))
    composer = ComposerSite.load(tmp_path / "config" / "composer.toml")
    assert composer.read_catalogue().pools["nvme-rack0"].nodes == ("node-0", "node-1")
    for program, site in (("scheduler", scheduler), ("composer", composer)):
        container = based(program)["spec"]["template"]["spec"]["containers"][0]
        (port,) = container["ports"]
        assert site.metrics.address is not None
        assert (site.metrics.address.port, site.metrics.allow_remote) == (port["containerPort"], True)
        assert str(site.state) in {one["mountPath"] for one in container["volumeMounts"]}
    assert composer.driver == VALUES["composer"]["driver"]


def test_the_image_has_what_the_project_pins() -> None:
    text = (ROOT / "deploy" / "Dockerfile").read_text()
    version = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    assert f"unrack:{version[1]}" in text
    assert "--constraint constraints.txt" in text
    assert re.search(r"^USER 65532:65532$", text, re.MULTILINE)
    assert VALUES["image"]["tag"] == version[1]


def extending() -> list[Content]:
    """The Deployment and the Service of the extender, as kustomize makes them."""
    found = objects((EXTENDER / "extender.yaml").read_text())
    for one in found:
        one["metadata"]["namespace"] = "unrack"
    found[0]["spec"]["template"]["spec"]["containers"][0]["image"] = "unrack:0.1.0"
    return found


def test_the_chart_says_of_the_extender_what_kustomize_says_and_has_it_only_if_asked() -> None:
    *made, config = template("extender")
    assert made[0]["spec"]["template"]["metadata"].pop("annotations") == {"checksum/site": "0"}
    assert made == extending()
    (said,) = yaml.safe_load((EXTENDER / "kustomization.yaml").read_text())["configMapGenerator"]
    assert said == {"name": config["metadata"]["name"], "files": ["site.toml=config/extender.toml"]}
    assert config["data"] == {"site.toml": (EXTENDER / "config" / "extender.toml").read_text()}
    assert VALUES["extender"]["enabled"] is False


def test_the_extender_is_what_its_page_says_with_the_rights_of_the_tests(tmp_path: Path) -> None:
    deployment, service = extending()
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    base = based("scheduler")["spec"]["template"]["spec"]
    assert pod["securityContext"] == base["securityContext"]
    assert container["securityContext"] == base["containers"][0]["securityContext"]
    assert container["args"][:2] == ["kubernetes", "extend"]
    assert pod["serviceAccountName"] in [one["metadata"]["name"] for one in objects(SHIPPED_EXTENDER.read_text())]
    asked = {name: container[f"{name}Probe"] for name in ("startup", "liveness", "readiness")}
    assert [asked[name]["httpGet"] for name in ("startup", "liveness")] == [{"path": "/healthz", "port": "metrics"}] * 2
    assert asked["readiness"] == {"tcpSocket": {"port": "https"}}  # it listens once it knows the nodes
    text = (EXTENDER / "config" / "extender.toml").read_text()
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    for port in ports.values():
        assert f'"0.0.0.0:{port}"' in text
    assert service["spec"]["ports"][0]["port"] == ports["https"]
    site = tmp_path / "site.toml"  # without the files that are in no test
    site.write_text(
        "\n".join(line for line in text.splitlines() if "tls" not in line).replace("0.0.0.0:9644", "[::1]:1")
    )
    assert ExtenderSite.load(site).metrics.allow_remote
    page = (ROOT / "docs" / "kubernetes-extender.md").read_text()
    said, in_cluster = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", page, re.DOTALL))
    (extender,) = said["extenders"]
    assert extender["urlPrefix"] == f"http://{ExtenderSite.model_fields['address'].default}"
    assert {key: value for key, value in extender.items() if key in ALL} == ALL
    told = yaml.safe_load(in_cluster["data"]["config.yaml"])
    (by_tls,) = told["extenders"]
    assert by_tls["urlPrefix"] == f"https://{service['metadata']['name']}.unrack.svc:{ports['https']}"
    assert {key: value for key, value in by_tls.items() if key in extender} == {
        **extender,
        "urlPrefix": by_tls["urlPrefix"],
    }
    assert by_tls["enableHTTPS"] is True
    assert set(by_tls["tlsConfig"]) == set(BY_TLS["tlsConfig"])


# On a server


@pytest.fixture
def served(kubernetes: KubernetesBed) -> Iterator[KubernetesBed]:
    """A server with the namespace, its label that pods are restricted included."""
    (namespace,) = objects((BASE / "namespace.yaml").read_text())
    kubernetes.admin.post("/api/v1/namespaces", namespace)
    yield kubernetes
    kubernetes.admin.delete("/api/v1/namespaces/unrack")
    kubernetes.wait_until(
        lambda: "unrack" not in [one["metadata"]["name"] for one in kubernetes.admin.get("/api/v1/namespaces")["items"]]
    )


def taken(bed: KubernetesBed, one: Content) -> None:
    """The server would take an object, applied on its side."""
    group, plural = one["apiVersion"], one["kind"].lower() + "s"
    inside = f"namespaces/{one['metadata']['namespace']}/" if "namespace" in one["metadata"] else ""
    path = f"/{'apis' if '/' in group else 'api'}/{group}/{inside}{plural}/{one['metadata']['name']}"
    keys = {"dryRun": "All", "fieldManager": "tests", "fieldValidation": "Strict", "force": "true"}
    bed.admin.ask("PATCH", path, one, kind="application/apply-patch+yaml", **keys)


def test_a_server_takes_all_of_it(served: KubernetesBed) -> None:
    for one in [*all_of_base(), *all_of_extender()]:
        taken(served, one)


@pytest.mark.parametrize("program", [*PROGRAMS, "extender"])
def test_a_server_lets_its_pods_in_where_pods_are_restricted(served: KubernetesBed, program: str) -> None:
    spec = (extending()[0] if program == "extender" else based(program))["spec"]
    pod = spec["template"]["spec"] | {"serviceAccountName": "default"}
    claimed = [{"name": one["metadata"]["name"], "emptyDir": {}} for one in spec.get("volumeClaimTemplates", ())]
    pod["volumes"] += claimed
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": pod}
    served.admin.ask("POST", "/api/v1/namespaces/unrack/pods", body, dryRun="All", fieldValidation="Strict")


HELM = ["helm", "template", "unrack", str(CHART), "--namespace", "unrack", "--kube-version", "1.37.1"]
ALONE = "extender.enabled=true,scheduler.enabled=false,composer.enabled=false"


@pytest.mark.parametrize(
    ("words", "shipped", "wanted"),
    [
        (["kubectl", "kustomize", str(BASE)], SHIPPED, all_of_base),
        (HELM, SHIPPED, all_of_base),
        (["kubectl", "kustomize", str(EXTENDER)], SHIPPED_EXTENDER, all_of_extender),
        ([*HELM, "--set", ALONE], SHIPPED_EXTENDER, all_of_extender),
    ],
    ids=["kustomize", "helm", "kustomize, extender", "helm, extender"],
)
def test_a_server_takes_what_the_tools_make(
    served: KubernetesBed, words: list[str], shipped: Path, wanted: Callable[[], list[Content]]
) -> None:
    if shutil.which(words[0]) is None:
        pytest.skip(f"no {words[0]} on this machine")
    made = objects(subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout)
    for one in made:
        if one["kind"] != "Namespace":
            taken(served, one)
    assert rules_in(made) == rules_in(objects(shipped.read_text()))
    kinds = sorted(one["kind"] for one in made if one["kind"] != "Namespace")
    assert kinds == sorted(one["kind"] for one in wanted())
