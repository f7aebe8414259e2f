"""``advisor compress`` as a user runs it."""

from pathlib import Path

import pytest

from advisor.tflite import Metadata
from tests.compression.user_model import networks
from tests.makers.commands import Advisor, ended
from tests.measurement import small_models


@pytest.fixture
def model(tmp_path: Path) -> str:
    said = Metadata("net", ("red things", "blue things"), (127.5,), (127.5,))
    (tmp_path / "net.tflite").write_bytes(said.write_into(small_models.classifier(32, classes=2)))
    return "net.tflite"


def test_a_row_a_labelled_form_and_a_negative_limit_are_refused(advisor: Advisor, model: str, photos: Path) -> None:
    asked = ("--recipe", "int8", "--data", str(photos), "--no-latency")
    said = ended(advisor("compress", model, *asked, COLUMNS="80"))
    assert "top-1 %" in said.out
    assert "scored on the 4 images held out of" in " ".join(said.out.split())
    assert max(map(len, said.out.splitlines())) <= 80
    assert (Path(photos).parent / "net-forms" / "net-int8.tflite").exists()
    said = ended(advisor("compress", model, "--recipe", "int8", "--data", str(photos), "--max-drop", "-100pt"), 2)
    assert said.err.startswith("error: --max-drop")


def test_json_has_every_figure(advisor: Advisor, model: str) -> None:
    said = ended(advisor("compress", model, "--recipe", "float16", "--json", "--to", "out"))
    form = said.document["forms"][1]
    assert form["agreement"]["share"]["value"] == 1
    assert form["speed"]["latency_ms"] > 0
    assert set(form["sizes"]) == {"size_bytes", "download_bytes", "download_zstd_bytes", "arena_bytes"}


def test_a_file_that_kills_the_runtime_is_one_line(advisor: Advisor, tmp_path: Path) -> None:
    (tmp_path / "crash.tflite").write_bytes(small_models.crashing())
    networks.samples(tmp_path / "s.npz", image=(8, 8, 3))
    said = ended(advisor("compress", "crash.tflite", "--recipe", "float16", "--samples", "s.npz"), 2)
    assert said.err.startswith("error: crash.tflite: crashed with SIGSEGV\nhint:  convert it again")
