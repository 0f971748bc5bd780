"""The fields that are read are fields of the API, of the same kind: checked against the whole of it."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from types import NoneType
from typing import Any

import msgspec
import pytest
from lightkube.models import core_v1, meta_v1

from unrack.live.kubernetes.client import objects

OF = {
    objects.Owner: meta_v1.OwnerReference,
    objects.Metadata: meta_v1.ObjectMeta,
    objects.Resources: core_v1.ResourceRequirements,
    objects.Container: core_v1.Container,
    objects.PodSpec: core_v1.PodSpec,
    objects.PodStatus: core_v1.PodStatus,
    objects.Pod: core_v1.Pod,
    objects.Taint: core_v1.Taint,
    objects.NodeSpec: core_v1.NodeSpec,
    objects.Condition: core_v1.NodeCondition,
    objects.NodeStatus: core_v1.NodeStatus,
    objects.Node: core_v1.Node,
}
TEXT = {"Time": "str", "Quantity": "str", "datetime": "str", "IntOrString": "str", "MicroTime": "str"}


def kind_of(hint: Any) -> str:
    """What a field is in JSON: a text, a number, a table, or a list of one of them."""
    members = [one for one in typing.get_args(hint) if one is not NoneType]
    origin = typing.get_origin(hint)
    if origin in (list, typing.List):  # noqa: UP006
        return f"list of {kind_of(members[0])}"
    if origin is dict:
        return "table"
    if members:
        return kind_of(members[0])
    name = TEXT.get(getattr(hint, "__name__", str(hint)), getattr(hint, "__name__", str(hint)))
    return name if name in ("str", "int", "bool") else "table"


def test_every_part_is_checked() -> None:
    parts = {
        one
        for one in vars(objects).values()
        if isinstance(one, type) and issubclass(one, msgspec.Struct) and one not in (objects.Part, msgspec.Struct)
    }
    assert parts == set(OF)


@pytest.mark.parametrize(("ours", "theirs"), OF.items(), ids=lambda one: one.__name__)
def test_fields_are_in_the_schema(ours: type[msgspec.Struct], theirs: Any) -> None:
    hints = typing.get_type_hints(theirs)
    assert dataclasses.is_dataclass(theirs)
    wanted: Mapping[str, str] = {field.name: kind_of(hints[field.name]) for field in dataclasses.fields(theirs)}
    read = {field.encode_name: kind_of(field.type) for field in msgspec.structs.fields(ours)}
    assert read == {name: wanted.get(name, "no such field") for name in read}
