"""Hugging Face, as a real server on this machine plays it."""

import pytest

from advisor.catalog.weights.fetching import fetch
from advisor.core.errors import WeightsError
from advisor.downloads.files import FetchOptions, MemberFile, WeightSource
from tests.catalog.conftest import Answer, Shelf
from tests.catalog.weights.conftest import CONTENT, card, sha256

pytestmark = pytest.mark.integration

REPOSITORY = WeightSource(
    "huggingface",
    "torch",
    "torch_modules",
    MemberFile("weights/model v1.pth", sha256(CONTENT), len(CONTENT)),
    package="team/tiny",
    version="refs/pr/1",
)
RESOLVED = "/team/tiny/resolve/refs%2Fpr%2F1/weights/model%20v1.pth"


def test_a_repositorys_file_is_fetched_at_its_revision_from_the_hub_that_is_named(
    shelf: Shelf, options: FetchOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", shelf.url + "/")
    shelf.put(RESOLVED, CONTENT)
    found = fetch(card(REPOSITORY), options)
    assert (found.path.read_bytes(), found.source) == (CONTENT, "huggingface:team/tiny==refs/pr/1")
    assert "Authorization" not in shelf.asked(RESOLVED)[0]


def test_a_token_reaches_the_hub_and_neither_its_store_nor_a_message(
    shelf: Shelf, options: FetchOptions, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    monkeypatch.setenv("HF_ENDPOINT", shelf.url)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    # The same server under another name is another host.
    elsewhere = shelf.url.replace("127.0.0.1", "localhost")
    shelf.put(RESOLVED, Answer(status=302, headers={"Location": f"{elsewhere}/store"}))
    shelf.put("/store", Answer(b"denied", 403))
    with pytest.raises(WeightsError, match="403") as raised:
        fetch(card(REPOSITORY), options)
    assert [headers["Authorization"] for headers in shelf.asked(RESOLVED)] == ["Bearer hf_secret"]
    assert "Authorization" not in shelf.asked("/store")[0]
    assert "hf_secret" not in raised.value.message + raised.value.hint + caplog.text


def test_a_gated_repository_is_said_to_be_refused(
    shelf: Shelf, options: FetchOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", shelf.url)
    shelf.put(RESOLVED, Answer(b"gated", 401))
    with pytest.raises(WeightsError, match=r"huggingface:team/tiny.*the server answers 401"):
        fetch(card(REPOSITORY), options)
