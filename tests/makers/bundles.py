"""A run of a real search, and its bundles, made once a test run."""

import contextlib
import io
import json
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from advisor.core import Evaluation, ImageAnswers, Status
from advisor.datasets import load
from advisor.reporting import Bundle
from advisor.reporting._bundle.bundle import export
from advisor.store import RunFolder, sha256_file
from tests.makers.searches import Searched
from tests.places import SHARED

Pixels = npt.NDArray[np.uint8]
FORMS = ("float32", "float16", "dynamic_int8", "weight_int8", "int8")
SIZE = 224


@pytest.fixture(scope="session")
def trained(with_images: Searched) -> RunFolder:
    """A search on pictures of three classes with awkward names."""
    return with_images.run


@pytest.fixture(scope="session")
def bundle(trained: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """The bundle of its float16 form, which needs no edit."""
    return export_form(trained, "float16", tmp_path_factory.mktemp("bundle") / "made")


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


def export_form(run: RunFolder, form: str, folder: Path, **options: Any) -> Bundle:
    """Export one form of the network on one thread, without the page, whose runtime may have to be fetched."""
    return export(run.path, folder, pick=evaluation_of(run, form).configuration.key, **{"web": False, **options})


def started(program: Path, *arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a Python program in a process of its own."""
    command = [sys.executable, str(program), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=120, check=False)


def ran(program: Path, *arguments: str | Path) -> tuple[int, str]:
    """Run a Python program in this process; return its exit code and what it printed."""
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as printed:
        patch.setattr(sys, "argv", [str(program), *map(str, arguments)])
        patch.setattr(sys, "path", [*sys.path])  # A program may take its folder out of it
        try:
            runpy.run_path(str(program), run_name="__main__")
        except SystemExit as end:
            return int(end.code or 0), printed.getvalue()
    return 0, printed.getvalue()


def output_of(program: Path, *arguments: str | Path) -> str:
    """Run a Python program in this process, which must end well; return what it printed."""
    code, said = ran(program, *arguments)
    assert code == 0, said
    return said


def checked_otherwise(bundle: Bundle, folder: Path, change: Callable[[dict[str, Any]], None]) -> str:
    """Return what the checker finds wrong if the first test vector expects something else, with sums that fit it."""
    own = Path(shutil.copytree(bundle.path, folder / "changed"))
    path, sums = own / "test_vectors" / "vectors.json", own / "SHA256SUMS"
    old, document = sha256_file(path), json.loads(path.read_text())
    change(document["vectors"][0])
    path.write_text(json.dumps(document))
    sums.write_text(sums.read_text().replace(old, sha256_file(path)))
    code, said = ran(own / "check.py")
    assert code == 1
    return said


def mediapipe_scores(model: bytes, images: Sequence[Pixels], **options: Any) -> list[list[Any]]:
    """Return the classes that MediaPipe's ImageClassifier shows for each picture, the most probable first."""
    mediapipe = pytest.importorskip("mediapipe")
    vision = mediapipe.tasks.vision
    base = mediapipe.tasks.BaseOptions(model_asset_buffer=model)
    found = []
    with vision.ImageClassifier.create_from_options(
        vision.ImageClassifierOptions(base_options=base, **options)
    ) as client:
        for photo in images:
            image = mediapipe.Image(image_format=mediapipe.ImageFormat.SRGB, data=np.ascontiguousarray(photo))
            found.append(client.classify(image).classifications[0].categories)
    return found


def mediapipe_answers(model: bytes, images: Sequence[Pixels]) -> list[tuple[str, float]]:
    """Return the label that it puts first for each picture, with its score."""
    first = (found[0] for found in mediapipe_scores(model, images, max_results=1))
    return [(str(one.category_name), float(one.score)) for one in first]
