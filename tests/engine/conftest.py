"""Searches that several tests look at, done once a test session with real weights and real measurements."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from PIL import Image
from skimage import data

from advisor.catalog.catalogue import load_catalogue
from advisor.catalog.weights.fetching import fetch
from advisor.core.errors import WeightsError
from advisor.store import RunFolder, cache_root
from tests.requirements import skip_or_fail

SMALLEST = "mobilenet_v1_0.25_224"
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
    """Run ``advisor search`` to its end."""
    asked = command("--out", str(out), *arguments)
    return subprocess.run(asked, env=environment(cache), capture_output=True, text=True, timeout=540, cwd=out.parent)


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """One folder for all workers of the test run."""
    base = tmp_path_factory.getbasetemp()
    return base if worker_id == "master" else base.parent


@pytest.fixture(scope="session")
def warm_cache(starts_processes: None, shared_folder: Path) -> Path:
    """A cache that holds the smallest card's real weights and no results."""
    card = load_catalogue()[SMALLEST]
    try:
        fetch(card)
    except WeightsError as error:
        skip_or_fail(f"the weights of {SMALLEST} cannot be fetched: {error.message.splitlines()[0]}")
    return linked_cache(shared_folder / "search-cache")


def linked_cache(folder: Path) -> Path:
    """Make a cache folder that shares the user's weights."""
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock"):
        if not (folder / "weights").exists():
            (folder / "weights").symlink_to(cache_root() / "weights")
    return folder


@pytest.fixture(scope="session")
def photos(shared_folder: Path) -> Path:
    """Crops of three photographs as three classes, 16 each, in folders with awkward names, and one broken file."""
    folder = shared_folder / "photos"
    with FileLock(shared_folder / "photos.lock"):
        if not folder.is_dir():
            write_photos(folder)
    return folder


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


def searched_once(folder: Path, cache: Path, *arguments: str) -> Searched:
    """Run the command once for all workers and return what it left."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "said.json"
    with FileLock(folder / "lock"):
        if not kept.is_file():
            done = search(cache, folder / "runs", *arguments)
            kept.write_text(json.dumps([done.returncode, done.stdout, done.stderr]))
    code, out, err = json.loads(kept.read_text())
    return Searched(code, out, err, RunFolder((folder / "runs" / "latest").resolve()))


def heads_of(photos: Path) -> tuple[str, ...]:
    """Options of a search that fits heads of the smallest card to images."""
    return ("--candidates", SMALLEST, "--budget", "50ms", "--data", str(photos), "--training", "head")


@pytest.fixture(scope="session")
def with_images(shared_folder: Path, warm_cache: Path, photos: Path) -> Searched:
    """``advisor search --data`` on the smallest card."""
    arguments = (*heads_of(photos), "--max-drop", "90pt")
    return searched_once(shared_folder / "with-pictures", warm_cache, *arguments)


@pytest.fixture(scope="session")
def without_images(shared_folder: Path, warm_cache: Path) -> Searched:
    """``advisor search`` on the smallest card, with a budget that nothing meets."""
    return searched_once(shared_folder / "without-pictures", warm_cache, "--candidates", SMALLEST, "--budget", "1us")


@pytest.fixture(scope="session")
def few_with_images(shared_folder: Path, warm_cache: Path, photos: Path, with_images: Searched) -> Searched:
    """``advisor search --data`` on two forms of the smallest card, which the cache holds: for what repeats a run."""
    assert with_images.code == 0, with_images.err
    arguments = (*heads_of(photos), "--threads", "1")
    few = ("--compressions", "float32,float16")
    return searched_once(shared_folder / "few-with-images", warm_cache, *arguments, *few)


@pytest.fixture(scope="session")
def one_without_images(shared_folder: Path, warm_cache: Path, without_images: Searched) -> Searched:
    """``advisor search`` on one form of the smallest card, which the cache holds: for what repeats a run."""
    assert without_images.code == 3, without_images.err
    one = ("--candidates", SMALLEST, "--budget", "1us", "--compressions", "float32", "--threads", "1")
    return searched_once(shared_folder / "one-without-images", warm_cache, *one)


@pytest.fixture
def empty_results(tmp_path: Path, warm_cache: Path) -> Path:
    """A cache of its own with real weights: every stage has to be done."""
    assert warm_cache
    return linked_cache(tmp_path / "cache")


@pytest.fixture
def converted(tmp_path: Path, warm_cache: Path, without_images: Searched) -> Path:
    """A cache of its own with the smallest card's converted network: every later stage has to be done."""
    assert without_images.code == 3, without_images.err
    cache = linked_cache(tmp_path / "cache")
    for stage in (warm_cache / "artifacts").glob("convert-*"):
        shutil.copytree(stage, cache / "artifacts" / stage.name)
    return cache
