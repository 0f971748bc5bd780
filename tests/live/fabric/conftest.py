from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from fabrics import loops


@pytest.fixture(scope="session", autouse=True)
def _no_loop_device_outlives_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Take down what a test that failed has left, or it would be in the machine until that starts again."""
    yield
    for device in loops(tmp_path_factory.getbasetemp()):
        subprocess.run(["losetup", "--detach", device], check=False)
