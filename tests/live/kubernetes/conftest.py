"""A real Kubernetes control plane for tests that need one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from k8s_bed import KubernetesBed
from make_k8sbox import CannotBuildError, make


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever takes the control plane is live: building its programs takes ten minutes the first time."""
    for item in items:
        if "programs" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.live)


@pytest.fixture(scope="session")
def programs() -> Path:
    """The programs of the control plane, built if they are not there."""
    try:
        return make()
    except CannotBuildError as error:
        pytest.skip(f"no Kubernetes for tests: {error}")


@pytest.fixture
def new_kubernetes(programs: Path) -> Iterator[Callable[..., KubernetesBed]]:
    """Makes control planes with options of one's own, which are stopped after the test."""
    made: list[KubernetesBed] = []

    def make_one(**options: Any) -> KubernetesBed:
        made.append(KubernetesBed(programs, **options))
        return made[-1]

    yield make_one
    for bed in made:
        bed.stop()


@pytest.fixture(scope="session")
def whole_kubernetes(programs: Path) -> Iterator[KubernetesBed]:
    """The control plane behind ``kubernetes``."""
    with KubernetesBed(programs) as bed:
        yield bed


@pytest.fixture
def kubernetes(whole_kubernetes: KubernetesBed) -> KubernetesBed:
    """A control plane for all tests, without pods and nodes. Leave its servers as you found them."""
    whole_kubernetes.clear()
    return whole_kubernetes
