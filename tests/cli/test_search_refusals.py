"""Bad input to ``advisor search``: a clear error with a hint, exit code 2, nothing spent, nothing lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from PIL import Image

from tests.cli.conftest import Advisor, Said


def refused(said: Said, *words: str) -> None:
    assert said.code == 2, said.err
    assert "Traceback" not in said.err
    assert "hint:" in said.err
    for word in words:
        assert word in said.err


def nothing_spent(tmp_path: Path) -> None:
    assert not (tmp_path / "runs").exists()
    assert not [name for name in ("weights", "artifacts") if (tmp_path / "cache" / name).exists()]


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        ("50", ("'50' has no unit", "--budget 50ms")),
        ("-5ms", ("'-5ms' is not above zero",)),
        ("0ms", ("'0ms' is not above zero",)),
        ("50parsec", ("unknown unit 'parsec'",)),
    ],
)
def test_a_budget_that_is_none(advisor: Advisor, tmp_path: Path, budget: str, words: tuple[str, ...]) -> None:
    refused(advisor("search", f"--budget={budget}"), *words)
    nothing_spent(tmp_path)


def test_a_data_folder_that_is_missing_names_the_nearest(advisor: Advisor, photos: Path, tmp_path: Path) -> None:
    refused(advisor("search", "--budget", "50ms", "--data", str(photos.parent / "photo")), "photo")
    nothing_spent(tmp_path)


def test_an_empty_data_folder(advisor: Advisor, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    refused(advisor("search", "--data", "empty"), "empty")
    nothing_spent(tmp_path)


def test_one_class(advisor: Advisor, photos: Path, tmp_path: Path) -> None:
    shutil.rmtree(photos / "blue things")
    refused(advisor("search", "--data", "photos"), "red things")
    nothing_spent(tmp_path)


def test_a_class_with_fewer_than_eight_images_is_named(advisor: Advisor, photos: Path, tmp_path: Path) -> None:
    for path in list((photos / "blue things").iterdir())[:5]:
        path.unlink()
    refused(advisor("search", "--data", "photos"), "blue things", "5")
    nothing_spent(tmp_path)


def test_more_than_a_fifth_of_the_images_unreadable(advisor: Advisor, photos: Path, tmp_path: Path) -> None:
    for count in range(8):
        (photos / "red things" / f"bad{count}.jpg").write_bytes(b"")
    refused(advisor("search", "--data", "photos"), "8", "28")
    nothing_spent(tmp_path)


def test_an_output_folder_that_cannot_be_written(advisor: Advisor, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused(advisor("search", "--budget", "50ms", "--out", "file/runs"), "file/runs", "cannot write to the folder")


def test_an_unknown_candidate_names_the_nearest(advisor: Advisor, tmp_path: Path) -> None:
    refused(advisor("search", "--candidates", "mobilnet_v2"), "mobilenet_v2")
    nothing_spent(tmp_path)


def test_an_unknown_recipe_names_the_nearest(advisor: Advisor, tmp_path: Path) -> None:
    refused(advisor("search", "--compressions", "int9"), "did you mean 'int8'")
    nothing_spent(tmp_path)


def test_no_network_and_an_empty_cache_names_the_weights_and_three_ways(advisor: Advisor, photos: Path) -> None:
    card = "squeezenet_1.1_227"
    said = advisor("search", "--budget", "50ms", "--offline", "--candidates", card, "--data", str(photos))
    refused(said, "squeezenet_1.1_227", "--mirror", "catalog fetch", "index")


def test_a_resumed_folder_that_is_no_run(advisor: Advisor) -> None:
    refused(advisor("search", "--resume", "nowhere"), "nowhere", "not a run folder")


def test_an_unknown_flag_names_the_nearest(advisor: Advisor) -> None:
    said = advisor("search", "--buget", "50ms")
    assert said.code == 2
    assert "--budget" in said.err


def test_a_image_that_is_not_one_is_not_a_class(advisor: Advisor, tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "flat.jpg")
    refused(advisor("search", "--data", "flat.jpg"), "flat.jpg")
