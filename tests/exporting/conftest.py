"""A run of a real search, done once a test session, and its bundles."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from advisor.core.evaluation import Evaluation, Status
from advisor.core.evaluation_facts import ImageAnswers
from advisor.datasets.images import load
from advisor.exporting.bundle import Bundle, export
from advisor.store import RunFolder
from advisor.store.files import sha256_file
from tests.conftest import SHARED
from tests.engine.conftest import Searched, photos, shared_folder, warm_cache, with_images

__all__ = ["photos", "shared_folder", "warm_cache", "with_images"]

Pixels = npt.NDArray[np.uint8]
Classify = Callable[[bytes], Iterator[tuple[str, float]]]
FORMS = ("float32", "float16", "dynamic_int8", "weight_int8", "int8")
SIZE = 224


@pytest.fixture(scope="session")
def trained(with_images: Searched) -> RunFolder:
    """A search on pictures of three classes with awkward names."""
    return with_images.run


@pytest.fixture(scope="session")
def bundle(trained: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """The bundle of its float16 form, which needs no edit."""
    key = evaluation_of(trained, "float16").configuration.key
    return export(trained.path, tmp_path_factory.mktemp("bundle") / "made", pick=key)


@pytest.fixture(scope="session")
def many_images(photos: Path) -> list[Pixels]:
    """50 pictures as a model takes them: of the six classes of TrashNet, or the crops where that is not here."""
    folder = SHARED / "data" / "images" / "trashnet"
    paths = sorted(folder.glob("*/*.jpg")) or sorted(photos.glob("*/[0-9]*.jpg")) * 2
    return [load(path, SIZE) for path in paths[:: max(1, len(paths) // 50)][:50]]


@pytest.fixture
def copied(trained: RunFolder, tmp_path: Path) -> RunFolder:
    """The run again, to be changed."""
    shutil.copytree(trained.path, tmp_path / "copy")
    return RunFolder.open(tmp_path / "copy")


def evaluation_of(run: RunFolder, form: str) -> Evaluation:
    """Return the evaluation of one form on one thread."""
    return next(e for e in run.evaluations() if e.configuration.compression == form and e.status is Status.OK)


def replace_artefact(
    run: RunFolder, evaluation: Evaluation, content: bytes, answers: ImageAnswers | None = None
) -> Evaluation:
    """Put another file in place of an artefact, as a search would have written it."""
    path = run.path / "artifacts" / "replaced.tflite"
    path.write_bytes(content)
    changed = replace(
        evaluation,
        artefact="artifacts/replaced.tflite",
        artefact_sha256=sha256_file(path),
        answers=answers or evaluation.answers,
    )
    run.append(changed)
    return changed


def mediapipe_answers(model: bytes, images: list[Pixels]) -> list[tuple[str, float]]:
    """Return the label that MediaPipe's ImageClassifier puts first for each picture, with its score."""
    import mediapipe
    from mediapipe.tasks import python as tasks
    from mediapipe.tasks.python import vision

    options = vision.ImageClassifierOptions(base_options=tasks.BaseOptions(model_asset_buffer=model), max_results=1)
    found = []
    with vision.ImageClassifier.create_from_options(options) as client:
        for photo in images:
            image = mediapipe.Image(image_format=mediapipe.ImageFormat.SRGB, data=np.ascontiguousarray(photo))
            first = client.classify(image).classifications[0].categories[0]
            found.append((str(first.category_name), float(first.score)))
    return found
