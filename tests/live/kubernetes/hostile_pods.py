"""Pods that an API server takes and no scheduler would wish for, each as the keys of ``KubernetesBed.add_pod``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Content = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HOST = "kubernetes.io/hostname"
LARGE = 250_000  # bytes; all annotations of a pod may have 256 KiB


def selector(number: int) -> Content:
    expressions = [
        {"key": f"k{i}", "operator": "NotIn", "values": [f"v{number}-{j}" for j in range(20)]} for i in range(5)
    ]
    return {"matchExpressions": expressions}


def hostile() -> Iterator[tuple[str, Content]]:
    """What it is, and the pod; all ask for next to nothing but where that is what is odd."""
    tiny: Content = {"requests": {"cpu": "1m"}}

    def of(**keys: Any) -> Content:
        return tiny | keys

    def saying(**annotations: str) -> Content:
        return of(
            metadata={
                "annotations": {key.replace("__", "/").replace("_", "-"): text for key, text in annotations.items()}
            }
        )

    yield "a long name", of(metadata={"name": "n" * 63 + ".m" * 95})
    yield "large annotations", saying(large="x" * LARGE)
    yield "large asks", saying(unrack_io__asks="remote_gpu.devices=1 " * 12_000)
    yield "odd asks", saying(unrack_io__asks="\x00\u202e${jndi}=1 =,=; deadline=\u0663h" + "(" * 500)
    for number, text in enumerate(["9" * 5000, "285 y", "\u0663 h", "-1", "1e308 s", "NaN", "0", " " * 5000 + "1 s"]):
        yield f"run time {number}", saying(unrack_io__run_time=text)
    group = {"kueue.x-k8s.io/pod-group-name": "g"}
    for number, text in enumerate(["0" * 8 + "1" + "9" * 5000, "99999", "-1", "\u00b2", "1.5"]):
        yield f"gang of {number}", of(metadata={
            "labels": {**group, "kueue.x-k8s.io/pod-group-name": f"g{number}"},
            "annotations": {"kueue.x-k8s.io/pod-group-total-count": text},
        })  # fmt: skip
    yield "a gang without its group", of(metadata={"labels": {"scheduling.x-k8s.io/pod-group": "none"}})
    for number, (resource, text) in enumerate(AMOUNTS):
        limits = {resource: text} | ({"cpu": "1"} if resource.startswith("hugepages") else {})
        container = {"name": "c", "image": "none", "resources": {"requests": limits, "limits": limits}}
        yield f"amount {number}", {"containers": [container]}
        yield f"amount {number} on a node", {"containers": [container], "nodeName": f"n{number % 4}"}
    yield "many resources", {"requests": {f"x{i}.y/z": "1" for i in range(2000)}}
    each = [{"cpu": "1m", f"x{i}.y/z": "1"} for i in range(1500)]
    named = [{"name": f"c{i}", "image": "none", "resources": {"limits": one}} for i, one in enumerate(each)]
    yield "many containers", {"containers": named}
    yield "a large specification", {"containers": [
        {"name": "c", "image": "none", "env": [{"name": f"E{i}", "value": "y" * 1000} for i in range(1000)]}
    ]}  # fmt: skip
    yield "many tolerations", of(tolerations=[
        {"key": f"k{i}", "operator": "Equal", "value": "v", "effect": "NoSchedule"} for i in range(8000)
    ])  # fmt: skip
    for number in range(20):
        yield f"where {number}", of(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": f"k{number}", "operator": "NotIn", "values": [f"v{j}" for j in range(2000)]}]}
            for _ in range(3)
        ]}}})  # fmt: skip
    yield "many node terms", of(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": f"k{i}", "operator": "Exists"}]} for i in range(5000)
    ]}}})  # fmt: skip
    for number in range(15):
        for kind in ("podAffinity", "podAntiAffinity"):
            terms = [{"topologyKey": HOST, "labelSelector": selector(i), "namespaceSelector": {}} for i in range(400)]
            yield (
                f"many terms of {kind} {number}",
                of(affinity={kind: {REQUIRED: terms}}, metadata={"labels": {"n": str(number)}}),
            )
        spreads = [{"topologyKey": f"t{i}", "maxSkew": 1, "labelSelector": selector(i)} for i in range(400)]
        spreads[0]["topologyKey"] = HOST
        spreads = [{**one, "whenUnsatisfiable": "DoNotSchedule"} for one in spreads]
        yield f"many spreads {number}", of(topologySpreadConstraints=spreads)
        ports = [{"hostPort": 1 + i, "containerPort": 1 + i} for i in range(4000)]
        yield f"many ports {number}", {"containers": [{"name": "c", "image": "none", "ports": ports}]}
    for number, expression in enumerate(COSTLY):
        yield f"claim {number}", of(claim=expression)


LIST = "[0,1,2,3,4,5,6,7,8,9]"
COSTLY = [
    f"{LIST}.all(a, {LIST}.all(b, {LIST}.all(c, a + b + c >= 0)))",
    f'{LIST}.map(x, string(x) + "{"y" * 3000}").exists(s, s.matches("(y+)+$"))',
    " || ".join(f'device.driver == "d{i}"' for i in range(400)),
    "(" * 100 + "true" + ")" * 100,
    'device.attributes["no"].where == 1',
    "true ? true : " * 200 + "true",
]
"""Selectors of devices that cost much, or that cannot be evaluated."""
AMOUNTS = [
    ("cpu", "4611686018427387"), ("memory", "8Ei"), ("x.y/nic", "9223372036854775807"), ("cpu", "1n"), ("memory", "1m"),
    ("nvidia.com/gpu", "9223372036854775807"), ("ephemeral-storage", "7Ei"), ("hugepages-2Mi", "6Ei"),
    ("nvidia.com/gpu", "922337203685477"), ("cpu", "4611686018427387903"),
    ("cpu", "999999999999999999"), ("nvidia.com/gpu", "999999999999999999"), ("x.y/nic", "999999999999999999"),
]  # fmt: skip
