"""The work of the stages, on a small graph of random values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from advisor.catalog.catalogue import load_catalogue
from advisor.catalog.convert import convert
from advisor.compression.calibration import CalibrationImages
from advisor.compression.quantization.grid import BYTES
from advisor.datasets.images import InputSpec
from advisor.engine.pipeline.materials import input_spec
from advisor.engine.pipeline.stages import head_jobs, jobs
from advisor.engine.pipeline.stages.artefacts import STAND_IN_CROPS, metadata_of
from advisor.engine.pipeline.stages.backbone import CONVERT_LIMITS, convert_resources
from advisor.store.files import sha256_json
from advisor.tflite.model import read
from advisor.training.features import extract
from tests.training import nets

SMALL = load_catalogue()["mobilenet_v1_0.25_128"]


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("jobs")
    convert(SMALL, None, folder / "master.tflite")
    jobs.cut(folder / "master.tflite", "probabilities", folder / "classifier.tflite")
    return folder / "classifier.tflite"


@pytest.mark.integration
def test_random_values_are_calibrated_briefly_to_the_same_operators_and_size(classifier: Path, tmp_path: Path) -> None:
    figures = {}
    for stands_in in (True, False):
        path = tmp_path / f"{stands_in}.tflite"
        crops = CalibrationImages((), input_spec(SMALL), limit=STAND_IN_CROPS if stands_in else None)
        figures[stands_in] = jobs.compress(classifier, "int8", crops, metadata_of(SMALL, None, "none"), path, stands_in)

    brief, whole = (read(tmp_path / f"{stands_in}.tflite") for stands_in in (True, False))
    assert [operator.name for operator in brief.operators] == [operator.name for operator in whole.operators]
    assert abs(brief.size_bytes - whole.size_bytes) < 0.02 * whole.size_bytes
    assert figures[True]["arena_bytes"] == figures[False]["arena_bytes"]


@pytest.mark.integration
def test_a_form_made_from_a_shared_calibration_is_the_one_made_alone(classifier: Path, tmp_path: Path) -> None:
    folder, crops = tmp_path / "calibration", CalibrationImages((), input_spec(SMALL), limit=STAND_IN_CROPS)
    folder.mkdir()
    jobs.calibrate(classifier, (BYTES,), crops, folder, ())
    files = tuple(sorted(folder.iterdir()))
    arguments = (classifier, "int8", crops, metadata_of(SMALL, None, "none"))
    jobs.compress(*arguments, tmp_path / "shared.tflite", True, None, files)
    jobs.compress(*arguments, tmp_path / "alone.tflite", True)
    assert (tmp_path / "shared.tflite").read_bytes() == (tmp_path / "alone.tflite").read_bytes()


@pytest.mark.integration
def test_a_float_head_is_scored_from_features_as_its_file_is_on_images(classifier: Path, tmp_path: Path) -> None:
    paths, spec = nets.stripes(tmp_path / "images", 6)[0], input_spec(SMALL)
    jobs.cut(classifier.with_name("master.tflite"), "features", tmp_path / "backbone.tflite")
    features = extract(tmp_path / "backbone.tflite", paths, spec)
    np.save(tmp_path / "features.npy", features)
    weights = np.random.default_rng(0).normal(size=(features.shape[1], 3)).astype(np.float32)
    np.savez(tmp_path / "head.npz", weights=weights, bias=np.array([0.1, 0.0, -0.1], np.float32))
    head_jobs.join(tmp_path / "backbone.tflite", tmp_path / "head.npz", tmp_path / "joined.tflite")
    jobs.score(tmp_path / "joined.tflite", paths[2:5], spec, tmp_path / "file.npy")
    head_jobs.score_head([tmp_path / "features.npy"], [2, 3, 4], tmp_path / "head.npz", tmp_path / "head.npy")
    np.testing.assert_allclose(np.load(tmp_path / "head.npy"), np.load(tmp_path / "file.npy"), atol=1e-4)


@pytest.mark.integration
def test_an_image_that_changed_between_two_files_is_decoded_again(classifier: Path, tmp_path: Path) -> None:
    paths, spec = nets.stripes(tmp_path / "images", 4)[0], input_spec(SMALL)
    found = []
    for number in range(3):
        if number == 2:
            paths[0].write_bytes(paths[3].read_bytes())
        jobs.score(classifier, paths, spec, tmp_path / "scores.npy")
        found.append(np.load(tmp_path / "scores.npy"))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[2][0], found[0][3])


@pytest.mark.integration
def test_the_download_of_random_values_is_not_weighed(classifier: Path, tmp_path: Path) -> None:
    arguments = (classifier, "float32", CalibrationImages((), input_spec(SMALL)), metadata_of(SMALL, None, "none"))
    assert "download_bytes" not in jobs.compress(*arguments, tmp_path / "a.tflite", True)
    assert "download_bytes" in jobs.compress(*arguments, tmp_path / "b.tflite")


def test_what_earlier_searches_kept_is_found_by_the_key_of_a_view() -> None:
    view = InputSpec(224, (123.68, 116.78, 103.94), (58.4, 57.12, 57.38))
    assert sha256_json(view.key) == "d92dbc066a1954b2e44322ddebf803df707757e0640198b1c9bf1804c915c78c"


def test_a_larger_model_may_take_more_memory_to_convert() -> None:
    cards = load_catalogue()
    small, large = (convert_resources(cards[name]).limits for name in (SMALL.name, "inception_resnet_v2_299"))
    assert CONVERT_LIMITS.memory_bytes < small.memory_bytes < large.memory_bytes
