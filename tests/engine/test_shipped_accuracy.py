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
from skimage import data

from advisor.core.evaluation import Evaluation
from advisor.core.metrics import BALANCED_ACCURACY, TOP1
from advisor.engine.history.loaded_run import load_run
from advisor.exporting.bundle import Bundle, export
from advisor.store import RunFolder
from tests.builders import present
from tests.makers.once import make_once
from tests.makers.searches import SMALLEST, Searched, searched_once
from tests.places import PROJECT

pytestmark = pytest.mark.integration

SCRIPT = PROJECT / "benchmarks" / "score_file.py"
WITHOUT_ADVISOR = """
import runpy, sys
sys.modules["advisor"] = None
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
REGIONS = ("left", "middle", "right")
UPRIGHT, TURNED = 1, 6
ORIENTATION = 0x0112


def write_phone_photos(folder: Path) -> None:
    """Write JPEG files larger than an input, some of them turned by EXIF: regions of one photograph, with noise.

    The regions overlap, so that some of the answers are wrong.
    """
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 40, (600, 450, 3))
    pixels = data.chelsea()
    for place, name in enumerate(REGIONS):
        (folder / name).mkdir(parents=True)
        for count in range(12):
            left = 60 * place + int(rng.integers(0, 100))
            crop = Image.fromarray(pixels[:, left : left + 200]).resize((450, 600))
            noisy = np.asarray(crop) + np.roll(noise, int(rng.integers(0, 600)), axis=0)
            exif = Image.Exif()
            exif[ORIENTATION] = TURNED if count % 3 == 0 else UPRIGHT
            image = Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))
            image.save(folder / name / f"{count}.jpg", quality=80, exif=exif)


@pytest.fixture(scope="session")
def phone_photos(shared_folder: Path) -> Path:
    return make_once(shared_folder / "phone-photos", write_phone_photos)


@pytest.fixture(scope="session")
def searched(shared_folder: Path, warm_cache: Path, phone_photos: Path, with_images: Searched) -> Searched:
    """A search by balanced accuracy on a float and an integer form of the smallest card, with trained heads."""
    assert with_images.code == 0, with_images.err  # the cache holds the network
    costs = shared_folder / "costs.csv"
    costs.write_text("class,left,middle,right\nleft,0,2,2\nmiddle,2,0,2\nright,2,2,0\n", encoding="utf-8")
    judged_by = ("--metric", BALANCED_ACCURACY, "--costs", str(costs), "--min-accuracy", "10%,top1=10%")
    asked = (*options(phone_photos), "--training", "head", "--workers", "1", *judged_by)
    return ended_well(searched_once(shared_folder / "shipped-accuracy", warm_cache, *asked))


@pytest.fixture(scope="session")
def finetuned(shared_folder: Path, warm_cache: Path, phone_photos: Path) -> Searched:
    """The same with every training of a usual search."""
    return ended_well(searched_once(shared_folder / "shipped-finetuned", warm_cache, *options(phone_photos)))


def options(photos: Path) -> tuple[str, ...]:
    return ("--candidates", SMALLEST, "--data", str(photos), "--threads", "1", "--compressions", "float32,int8")


def ended_well(found: Searched) -> Searched:
    assert found.code == 0, found.err
    return found


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
    return answers.metrics.get(TOP1, present(evaluation.holdout_accuracy)).value


@pytest.mark.parametrize("search", ["searched", "with_images", pytest.param("finetuned", marks=pytest.mark.slow)])
def test_the_claimed_hold_out_accuracy_is_that_of_the_shipped_files_scored_without_advisor(
    request: pytest.FixtureRequest, search: str
) -> None:
    run = request.getfixturevalue(search).run
    holdout = run.read_json("split.json")["holdout"]
    assert judged(run)
    for file, evaluation in judged(run).items():
        found = scored_elsewhere(run.path / file, run)
        claimed, answers = evaluation.holdout_accuracy, evaluation.holdout_answers
        assert claimed is not None
        assert answers is not None
        assert found["images"] == claimed.n == len(holdout)
        assert top1(evaluation) == pytest.approx(100 * found["right"] / len(holdout))
        classes = run.read_json("split.json")["classes"]
        assert found["answers"] == [classes[label] for label in np.load(run.path / answers.file)]


def test_another_metric_decides_where_it_is_asked_for(searched: Searched) -> None:
    run = load_run(searched.run.path)
    assert run.question.metric == BALANCED_ACCURACY
    for evaluation in run.evaluations:
        answers = evaluation.answers
        assert set(answers.metrics) == {"top1", "balanced-accuracy", "macro-f1", "log-loss", "cost-saved"}
        assert evaluation.accuracy == answers.metrics["balanced-accuracy"]
        recalls = [share for share in answers.per_class_recall.values() if share is not None]
        assert evaluation.accuracy.value == pytest.approx(100 * np.mean(recalls))
        shares = np.load(searched.run.path / answers.shares)
        assert 100 * shares.mean() == pytest.approx(evaluation.accuracy.value, abs=1e-3)
    pick = present(run.decision.pick)
    assert pick.holdout_accuracy == present(pick.holdout_answers).metrics["balanced-accuracy"]
    assert "balanced accuracy" in searched.out
    assert "cost saved" in (searched.run.path / "report.md").read_text()


@pytest.fixture(scope="session")
def bundle(searched: Searched, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return export(searched.run.path, tmp_path_factory.mktemp("shipped") / "bundle", targets=("python",))


def test_the_code_of_a_bundle_answers_the_hold_out_as_claimed(searched: Searched, bundle: Bundle) -> None:
    run, pick = searched.run, bundle.evaluation
    rows = run.read_json("split.json")["holdout"]
    folder = Path(run.read_json("dataset.json")["folder"])
    command = [sys.executable, bundle.path / "python" / "classify.py", *(folder / row["path"] for row in rows)]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    answers = [line.split(": ")[1].split(" ")[0] for line in done.stdout.splitlines()]
    right = sum(answer == row["class"] for answer, row in zip(answers, rows, strict=True))
    assert top1(pick) == pytest.approx(100 * right / len(rows))


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


def test_the_code_of_a_bundle_reads_images_as_they_were_read_for_the_figures(
    bundle: Bundle, odd_images: list[Path]
) -> None:
    from advisor.datasets.images import load

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
