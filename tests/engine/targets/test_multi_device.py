"""``advisor search --device A,B`` on the smallest card: real training, real compression, predicted latencies."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from advisor.core import Provenance, Status
from advisor.engine import LoadedRun, Progress, resolve, run_search
from advisor.reporting import RunView
from advisor.store import sha256_file
from advisor.tflite import Metadata
from tests.makers.searches import SMALLEST, Searched
from tests.reporting.views import said
from tests.requirements import skip_or_fail

DEVICES = ("raspberry-pi-4", "galaxy-s24")
SLOW = "mobilenet_v2_1.0_224"
"""On a Raspberry Pi 4 its int8 file was published with 17 ms."""


@pytest.fixture(scope="module")
def stored(
    tmp_path_factory: pytest.TempPathFactory, warm_cache: Path, photos: Path, with_images: Searched
) -> Iterator[LoadedRun]:
    """A search for two devices of which none is at hand; the cache holds the files of the smallest card."""
    assert with_images.code == 0, with_images.err
    options = {
        "candidates": [SMALLEST, SLOW], "data": str(photos), "training": ["head"], "compressions": ["int8"],
        "budget": "10ms", "ship_on": "all", "workers": 1, "device": ",".join(DEVICES), "must_run_on": [DEVICES[0]],
        "out": str(tmp_path_factory.mktemp("elsewhere")),
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ADVISOR_CACHE_DIR", str(warm_cache))
        yield LoadedRun.load(run_search(resolve(options), Progress()).run.path)


def test_each_file_is_made_once_and_predicted_on_each_device(stored: LoadedRun) -> None:
    ok = [row for row in stored.evaluations if row.status is Status.OK]
    assert {row.configuration.target.device for row in ok} == set(DEVICES)
    assert len({row.artefact_sha256 for row in ok}) == 2
    assert len(ok) == 4
    assert len({(row.artefact_sha256, row.accuracy.value) for row in ok}) == 2, "the same wherever it runs"
    assert all(row.file_features.form == row.configuration.compression for row in ok)
    for row in ok:
        assert row.accuracy.provenance is Provenance.MEASURED
        assert row.latency.provenance in (Provenance.PREDICTED, Provenance.PUBLISHED)
        assert row.latency.low is not None
        assert row.memory.provenance is Provenance.PREDICTED


def test_one_model_for_all_and_a_pick_a_device(stored: LoadedRun) -> None:
    assert stored.decision.feasible
    assert set(stored.by_device) == set(DEVICES)
    assert all(decision.feasible and decision.front for decision in stored.by_device.values())
    text = " ".join(said(RunView.load(stored.folder), 100).split())
    assert "Pick for all devices" in text
    assert "sure to meet 10.0 ms" in text


def test_the_pick_gets_a_file_that_learns_from_all_images(stored: LoadedRun) -> None:
    pick, read = stored.decision.pick, stored.dataset
    file, images = pick.on_all, read["train"] + read["validation"] + read["holdout"]
    assert (file.images, file.more, file.compared) == (images, read["holdout"], read["validation"])
    assert file.same > 0.8
    content = (stored.folder.path / file.file).read_bytes()
    assert f"retrained (head) on {images} images" in Metadata.read(content).description
    assert sha256_file(stored.folder.path / pick.artefact) == pick.artefact_sha256 != file.sha256


def test_a_device_that_the_pick_must_run_on_is_predicted_when_asked(stored: LoadedRun) -> None:
    found = LoadedRun.load(stored.folder.path, {"must_run_on": ["coral-usb"]})
    assert found.decision.pick.configuration.compression == "int8"


def test_what_could_hardly_meet_the_budget_leaves_before_it_is_trained(stored: LoadedRun) -> None:
    slow = [row for row in stored.evaluations if row.configuration.card == SLOW]
    if not slow:
        skip_or_fail(f"the weights of {SLOW} cannot be fetched")
    assert {(row.status, row.stage) for row in slow} == {(Status.SKIPPED, "predict")}
    assert "under 1 % sure to meet 10.0 ms: not trained" in slow[0].reason
