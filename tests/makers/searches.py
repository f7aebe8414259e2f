"""Searches that several tests look at, done once a test run with real weights and real measurements."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from PIL import Image
from skimage import data

from advisor.catalog import Catalogue, fetch_weights
from advisor.core import WeightsError
from advisor.store import RunFolder, cache_root
from tests.makers import forks
from tests.makers.once import make_once
from tests.requirements import skip_or_fail

SMALLEST = "mobilenet_v1_0.25_224"

FORMS = "float32,dynamic_int8"
"""What is searched without images: an accuracy that is published, and one that is estimated."""

REGIONS = ("left", "middle", "right")

ORIENTATION, UPRIGHT, TURNED = 0x0112, 1, 6
"""An entry of EXIF and two of its values."""

IMAGES = {"astronaut": data.astronaut, "cat & <b>coffee": data.chelsea, "rocket 'é'": data.rocket}


@dataclass(frozen=True)
class Searched:
    """What a search printed and left."""

    code: int
    out: str
    err: str
    run: RunFolder


def environment(cache: Path) -> dict[str, str]:
    return {**os.environ, "ADVISOR_CACHE_DIR": str(cache), "NO_COLOR": "1"}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "advisor", "search", *arguments]


def search(cache: Path, out: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``advisor search`` to its end, in a fork of a process that has the imports done."""
    asked = ("search", "--out", str(out), *arguments)
    return subprocess.CompletedProcess(asked, *forks.run(forks.context(), asked, out.parent, environment(cache), 540))


Search = Callable[..., subprocess.CompletedProcess[str]]


def three_lines(cache: Path, out: Path, photos: str, costs: str) -> subprocess.CompletedProcess[str]:
    """Run a program of three lines that searches two forms of the smallest card by balanced accuracy."""
    program = out.parent / "three_lines.py"
    program.write_text(
        "from advisor import search\n"
        f"run = search(data={photos!r}, candidates={SMALLEST!r}, training='head', compressions=['float32', 'int8'], "
        f"metric='balanced-accuracy', costs={costs!r}, min_accuracy='10%,top1=10%', threads=[1], workers=1, "
        f"out={str(out)!r})\n"
        "print(run.pick.configuration.card, run.report)\n",
        encoding="utf-8",
    )
    done = forks.run(forks.context(), (), out.parent, environment(cache), 540, program)
    return subprocess.CompletedProcess(program, *done)


@pytest.fixture(scope="session")
def warm_cache(starts_processes: None, shared_folder: Path) -> Path:
    """A cache that holds the smallest card's real weights and no results."""
    card = Catalogue.load()[SMALLEST]
    try:
        fetch_weights(card)
    except WeightsError as error:
        skip_or_fail(f"the weights of {SMALLEST} cannot be fetched: {error.message.splitlines()[0]}")
    return linked_cache(shared_folder / "search-cache")


def linked_cache(folder: Path) -> Path:
    """Make a cache folder that shares the user's weights, and does not read catalogues and fit the predictor again."""
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock"):
        if not (folder / "weights").exists():
            (folder / "weights").symlink_to(cache_root() / "weights")
            for path in (*cache_root().glob("catalogues/*"), *cache_root().glob("predictors/*.npz")):
                (folder / path.parent.name).mkdir(exist_ok=True)
                (folder / path.parent.name / path.name).symlink_to(path)
    return folder


@pytest.fixture(scope="session")
def photos(shared_folder: Path) -> Path:
    """Crops of three photographs as three classes, 16 each, in folders with awkward names, and one broken file."""
    return make_once(shared_folder / "photos", write_photos)


def write_photos(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for name, photograph in IMAGES.items():
        (folder / name).mkdir(parents=True)
        pixels = photograph()
        for count in range(16):
            top, left = (int(rng.integers(0, length // 3)) for length in pixels.shape[:2])
            crop = pixels[top : top + 2 * pixels.shape[0] // 3, left : left + 2 * pixels.shape[1] // 3]
            Image.fromarray(crop).resize((96, 96)).save(folder / name / f"{count}.jpg")
    (folder / "astronaut" / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 not a picture")


def searched_once(folder: Path, cache: Path, *arguments: str, how: Search = search) -> Searched:
    """Search once for all workers and return what it left."""

    def make(folder: Path) -> None:
        done = how(cache, folder / "runs", *arguments)
        (folder / "said.json").write_text(json.dumps([done.returncode, done.stdout, done.stderr]))

    make_once(folder, make)
    code, out, err = json.loads((folder / "said.json").read_text())
    return Searched(code, out, err, RunFolder((folder / "runs" / "latest").resolve()))


def heads_of(photos: Path) -> tuple[str, ...]:
    """Options of a search that fits heads of the smallest card to images."""
    return ("--candidates", SMALLEST, "--budget", "50ms", "--data", str(photos), "--training", "head")


@pytest.fixture(scope="session")
def with_images(shared_folder: Path, warm_cache: Path, photos: Path) -> Searched:
    """``advisor search --data`` on the smallest card."""
    arguments = (*heads_of(photos), "--max-drop", "90pt", "--threads", "1", "--workers", "1")
    return searched_once(shared_folder / "with-pictures", warm_cache, *arguments)


@pytest.fixture(scope="session")
def without_images(shared_folder: Path, warm_cache: Path) -> Searched:
    """``advisor search`` on two forms of the smallest card, with a budget that nothing meets."""
    asked = ("--candidates", SMALLEST, "--budget", "1us", "--compressions", FORMS, "--workers", "1")
    return searched_once(shared_folder / "without-pictures", warm_cache, *asked)


@pytest.fixture(scope="session")
def phone_photos(shared_folder: Path) -> Path:
    """JPEG files of three classes, larger than an input; some are turned by EXIF, and some are hard to tell apart."""
    return make_once(shared_folder / "phone-photos", write_phone_photos)


def write_phone_photos(folder: Path) -> None:
    """Write regions of one photograph, with noise. They overlap, so that some of the answers are wrong."""
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
def by_metric(shared_folder: Path, warm_cache: Path, phone_photos: Path, with_images: Searched) -> Searched:
    """A search by the Python API and another metric, on a float and an integer form of the smallest card."""
    assert with_images.code == 0, with_images.err  # the cache holds the network
    costs = shared_folder / "costs.csv"
    costs.write_text("class,left,middle,right\nleft,0,2,2\nmiddle,2,0,2\nright,2,2,0\n", encoding="utf-8")
    found = searched_once(shared_folder / "by-metric", warm_cache, str(phone_photos), str(costs), how=three_lines)
    assert found.code == 0, found.err
    return found


@pytest.fixture
def empty_results(tmp_path: Path, warm_cache: Path) -> Path:
    """A cache of its own with real weights: every stage has to be done."""
    assert warm_cache
    return linked_cache(tmp_path / "cache")


@pytest.fixture
def converted(empty_results: Path, warm_cache: Path, without_images: Searched) -> Path:
    """A cache of its own with the smallest card's converted network: every later stage has to be done."""
    return with_stages(empty_results, warm_cache, without_images, "convert")


@pytest.fixture
def compressed(empty_results: Path, warm_cache: Path, without_images: Searched) -> Path:
    """A cache of its own with the smallest card's files: nothing but timings has to be done."""
    return with_stages(empty_results, warm_cache, without_images, "convert", "cut", "compress", "answers")


def with_stages(cache: Path, warm: Path, searched: Searched, *stages: str) -> Path:
    """Copy the results of stages that a search has left in another cache."""
    assert searched.code == 3, searched.err
    for folder in (found for stage in stages for found in (warm / "artifacts").glob(f"{stage}-*")):
        shutil.copytree(folder, cache / "artifacts" / folder.name)
    return cache
