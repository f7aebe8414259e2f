"""Downloads over a bad line, from a real server on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.catalog.weights.digest import Unavailable
from advisor.catalog.weights.network import download
from advisor.catalog.weights.network.transport import Client, Transport
from tests.catalog.conftest import Answer, Shelf

BODY = bytes(range(256)) * 8192


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait a hundredth of the real pauses."""
    monkeypatch.setattr(download, "FIRST_PAUSE_S", 0.004)


def fetch(url: str, target: Path, timeout_s: float = 5.0) -> list[tuple[int, int | None]]:
    heard: list[tuple[int, int | None]] = []
    with Client(Transport(connect_timeout_s=timeout_s, read_timeout_s=timeout_s)) as client:
        download.Download(client, url, target, lambda done, total: heard.append((done, total))).run()
    return heard


def test_a_cut_off_download_goes_on_where_it_broke(shelf: Shelf, tmp_path: Path) -> None:
    url = shelf.put("/w", Answer(BODY, cut_after=1_000_000))
    fetch(url, tmp_path / "w")
    assert (tmp_path / "w").read_bytes() == BODY
    first, second = shelf.asked("/w")
    assert "Range" not in first
    assert 0 < int(second["Range"].removeprefix("bytes=").rstrip("-")) <= 1_000_000


def test_a_server_without_ranges_is_asked_for_the_whole_again(shelf: Shelf, tmp_path: Path) -> None:
    url = shelf.put("/w", Answer(BODY, cut_after=1_000_000, ranges=False))
    fetch(url, tmp_path / "w")
    assert (tmp_path / "w").read_bytes() == BODY


def test_what_an_earlier_run_left_is_continued(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(BODY[:700_000])
    fetch(shelf.put("/w", BODY), tmp_path / "w")
    assert (tmp_path / "w").read_bytes() == BODY
    assert [headers["Range"] for headers in shelf.asked("/w")] == ["bytes=700000-"]


def test_a_file_that_is_whole_already_is_left_as_it_is(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(BODY)
    fetch(shelf.put("/w", BODY), tmp_path / "w")
    assert (tmp_path / "w").read_bytes() == BODY


def test_a_busy_server_is_asked_again(shelf: Shelf, tmp_path: Path) -> None:
    fetch(shelf.put("/w", Answer(BODY, refusals=3)), tmp_path / "w")
    assert (tmp_path / "w").read_bytes() == BODY


def test_a_server_that_stays_busy_is_given_up(shelf: Shelf, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="503"):
        fetch(shelf.put("/w", Answer(BODY, refusals=99)), tmp_path / "w")
    assert len(shelf.asked("/w")) == download.ATTEMPTS


def test_pauses_between_attempts_grow(shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(download.time, "sleep", pauses.append)
    fetch(shelf.put("/w", Answer(BODY, refusals=4)), tmp_path / "w")
    assert [pause for pause in pauses if pause] == [download.FIRST_PAUSE_S * 2**power for power in range(4)]


def test_a_missing_file_is_not_asked_for_twice(shelf: Shelf, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="404"):
        fetch(shelf.url + "/nothing", tmp_path / "w")
    assert len(shelf.asked("/nothing")) == 1


def test_a_line_that_always_breaks_at_the_start_is_given_up(shelf: Shelf, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="times"):
        fetch(shelf.put("/w", Answer(BODY, cut_after=0, cuts=99)), tmp_path / "w")


def test_a_server_that_does_not_answer_in_time_is_given_up(shelf: Shelf, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="time-out"):
        fetch(shelf.put("/w", Answer(BODY, delay_s=1.0)), tmp_path / "w", timeout_s=0.05)


def test_an_absurd_size_is_refused_before_a_byte_is_written(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "MAX_DOWNLOAD_BYTES", 1000)
    with pytest.raises(Unavailable, match="too many"):
        fetch(shelf.put("/w", BODY), tmp_path / "w")
    assert not (tmp_path / "w").exists()


def test_the_password_in_an_address_is_in_no_message(shelf: Shelf, tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as raised:
        fetch(shelf.url.replace("//", "//me:secret@") + "/nothing", tmp_path / "w")
    assert "secret" not in str(raised.value)
    assert shelf.asked("/nothing")[0]["Authorization"].startswith("Basic ")
