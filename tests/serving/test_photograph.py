"""What files answer to a photograph, in a real child process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from advisor.core.errors import AdvisorError, StageError, UsageError
from advisor.serving.photograph import Answerer
from advisor.store import RunFolder
from tests.measurement import small_models
from tests.run_folders import write_run
from tests.serving.client import Client
from tests.serving.conftest import COLOURS, keep_file, photograph, write_metadata

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("starts_processes")]


@pytest.fixture(scope="module")
def answerer() -> Iterator[Answerer]:
    with Answerer() as answerer:
        yield answerer


def test_both_forms_answer(answerer: Answerer, colours: RunFolder) -> None:
    answers = answerer.answer(colours.path, photograph((10, 10, 250)))
    assert [answer.form for answer in answers] == ["float32", "int8"]
    assert [answer.picked for answer in answers] == [False, True]
    for answer in answers:
        assert answer.top[0][0] == "<b>blue"
        assert answer.top[0][1] > 0.5
        assert answer.shown


@pytest.mark.parametrize(
    ("content", "words"), [(b"", "not a JPEG"), (b"GIF89a", "cannot be used"), (photograph()[:60], "cannot be used")]
)
def test_what_is_no_photograph_is_refused(answerer: Answerer, colours: RunFolder, content: bytes, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        answerer.answer(colours.path, content)


def test_a_changed_file_is_not_run(answerer: Answerer, colours: RunFolder) -> None:
    (colours.artefacts / "colours-int8.tflite").write_bytes(b"other")
    with pytest.raises(UsageError, match="has changed"):
        answerer.answer(colours.path, photograph())


def test_a_file_that_crashes_leaves_the_server_alone(answerer: Answerer, colours: RunFolder) -> None:
    keep_file(colours, "int8", write_metadata(small_models.crashing(), COLOURS))
    with pytest.raises(AdvisorError):
        answerer.answer(colours.path, photograph())
    keep_file(colours, "int8", write_metadata(small_models.brightness(), COLOURS))
    assert answerer.answer(colours.path, photograph())[1].top[0][0] == "red"


def test_a_run_without_an_answer_is_refused(answerer: Answerer, colours: RunFolder) -> None:
    empty = write_run(colours.path.parent, [], name="empty")
    with pytest.raises((UsageError, StageError), match="no candidate"):
        answerer.answer(empty.path, photograph())


def test_the_answers_are_bars_with_escaped_names(client: Client, colours: RunFolder) -> None:
    answer = client.change(f"/runs/{colours.path.name}/photograph", photograph((10, 10, 250)))
    assert answer.status_code == 200
    assert "All files give the same answer." in answer.text
    assert "&lt;b&gt;blue" in answer.text
    assert answer.text.count("<rect") == 6
    assert "not a JPEG" in client.change(f"/runs/{colours.path.name}/photograph", b"text").text
