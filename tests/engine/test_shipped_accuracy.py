"""The hold-out accuracy that an answer claims is what the shipped file has, scored by a program that is not ours."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from advisor.core import Evaluation, Metric
from advisor.reporting import Bundle
from advisor.reporting._bundle.bundle import export
from advisor.store import RunFolder
from tests.builders import present
from tests.makers.searches import ORIENTATION, SMALLEST, TURNED, Searched, searched_once
from tests.places import PROJECT
from tests.tables import read_table

pytestmark = pytest.mark.integration

SCRIPT = PROJECT / "benchmarks" / "score_file.py"
WITHOUT_ADVISOR = read_table(__file__, "texts.yaml")["without_advisor"]


@pytest.fixture(scope="session")
def finetuned(shared_folder: Path, warm_cache: Path, phone_photos: Path) -> Searched:
    """A search on the same images with every training of a usual search."""
    options = ("--candidates", SMALLEST, "--threads", "1", "--compressions", "float32,int8")
    return searched_once(shared_folder / "shipped-finetuned", warm_cache, "--data", str(phone_photos), *options)


def scored_elsewhere(model: Path, run: RunFolder) -> dict[str, Any]:
    """Score a file on the hold-out in a process that cannot import ``advisor``."""
    folder = run.read_json("dataset.json")["folder"]
    command = [sys.executable, "-c", WITHOUT_ADVISOR, SCRIPT, model, run.path / "split.json", folder]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def judged(run: RunFolder) -> dict[str, Evaluation]:
    """Return the evaluation of each file that was judged on the hold-out, by its path."""
    return {e.artefact: e for e in run.evaluations() if e.holdout_accuracy}


def top1(evaluation: Evaluation) -> float:
    """Return the share of right answers on the hold-out in percent, whatever the search was judged by."""
    answers = present(evaluation.holdout_answers)
    return answers.metrics.get(Metric.TOP1, present(evaluation.holdout_accuracy)).value


@pytest.mark.parametrize("search", ["by_metric", "with_images", pytest.param("finetuned", marks=pytest.mark.slow)])
def test_the_claimed_hold_out_accuracy_is_the_shipped_files_own(request: pytest.FixtureRequest, search: str) -> None:
    run = request.getfixturevalue(search).run
    holdout = run.read_json("split.json")["holdout"]
    assert judged(run)
    for file, evaluation in judged(run).items():
        found = scored_elsewhere(run.path / file, run)
        claimed, answers = evaluation.holdout_accuracy, evaluation.holdout_answers
        assert found["images"] == claimed.n == len(holdout)
        assert top1(evaluation) == pytest.approx(100 * found["right"] / len(holdout))
        classes = run.read_json("split.json")["classes"]
        assert found["answers"] == [classes[label] for label in np.load(run.path / answers.file)]


@pytest.fixture(scope="session")
def bundle(by_metric: Searched, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return export(by_metric.run.path, tmp_path_factory.mktemp("shipped") / "bundle", targets=("python",))


@pytest.fixture
def odd_images(phone_photos: Path, tmp_path: Path) -> list[Path]:
    """Images of every kind that is converted, some of them turned by EXIF."""
    exif = Image.Exif()
    exif[ORIENTATION] = TURNED
    paths = [phone_photos / "left" / f"{count}.jpg" for count in (0, 1)]
    with Image.open(paths[1]) as image:
        for mode, name in (("L", "grey.jpg"), ("CMYK", "cmyk.jpg"), ("P", "palette.png"), ("RGB", "photo.webp")):
            image.convert(mode).save(tmp_path / name)
        grey = np.asarray(image.convert("L"))
        for name, turn in (("upright", None), ("turned", exif)):
            sixteen = Image.fromarray(grey.astype(np.uint16) * 250 + 90)
            sixteen.save(tmp_path / f"sixteen-{name}.png", **({"exif": turn} if turn else {}))
        image.putalpha(image.convert("L"))
        image.save(tmp_path / "transparent.png")
        image.save(tmp_path / "transparent-turned.png", exif=exif)
    return [*paths, *sorted(tmp_path.iterdir())]


def test_the_code_of_a_bundle_reads_images_as_for_the_figures(bundle: Bundle, odd_images: list[Path]) -> None:
    from advisor.datasets import load

    classify, script = module(bundle.path / "python" / "classify.py"), module(SCRIPT)
    for path in odd_images:
        expected = load(path, bundle.model.size)
        with Image.open(path) as image:
            assert np.array_equal(np.asarray(classify.square(image, bundle.model.size)), expected), path.name
        assert np.array_equal(script.pixels_of(path, bundle.model.size), expected), path.name


def module(path: Path) -> Any:
    """Import a script by its path."""
    spec = present(importlib.util.spec_from_file_location(path.stem, path))
    made = importlib.util.module_from_spec(spec)
    present(spec.loader).exec_module(made)
    return made
