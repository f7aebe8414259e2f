"""A browser of this machine as a device of a question: selected with its thread counts."""

import pytest

from advisor.engine import TargetDevice, resolve
from advisor.engine._targets.target_devices import select_targets
from advisor.integrations.browser import LITERT
from tests.makers.browsers import chromium, require_runtime

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def browser() -> None:
    chromium()
    require_runtime(LITERT)


def targets_of(device: str) -> tuple[TargetDevice, ...]:
    return select_targets(resolve({"device": device, "threads": [1, 2]}).question).devices


def test_it_is_measured_at_the_thread_counts_of_the_question_or_as_the_target_that_is_named() -> None:
    found = targets_of("chromium")
    assert [(device.label, device.target.threads) for device in found] == [("chromium", 2), ("chromium", 1)]
    assert {device.identity.runtime for device in found} == {"litert-web==2.5.3"}
    assert found[1].target.name == "litert-wasm"
    (found,) = targets_of("chromium:onnxruntime-wasm")
    assert (found.identity.runtime, found.target.threads) == ("onnxruntime-web==1.30.0", 1)
