"""A table of servers that send what they should not: each ends in time, in words, and the next source is tried."""

import logging
import random
import socket
import threading
import time
from itertools import chain, repeat
from pathlib import Path

import pytest

from advisor.catalog import fetch_weights
from advisor.core import WeightsError
from advisor.store import FetchOptions, Unavailable
from advisor.store._downloads import delivery
from advisor.store._downloads.transport import MAX_DOWNLOAD_S, STEP_BYTES, Client, Deadline, Transport
from tests.builders import must_fail
from tests.makers.servers import Answer, Shelf
from tests.makers.weights import CONTENT, card, home

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("own_settings")]

PATIENCE_S = 0.3
"""With servers that are too slow. A machine that is busy is none: other servers have as long as they need."""

SOON_S = 60.0
LENGTH = len(CONTENT)
CHANGED = 100  # Answers with bytes changed


@pytest.fixture
def options(tmp_path: Path) -> FetchOptions:
    return FetchOptions(cache=tmp_path / "cache")


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "FIRST_PAUSE_S", 0.004)


def be_patient(monkeypatch: pytest.MonkeyPatch, *seconds: float) -> None:
    """Wait so long for the first answers, one after the other, and for later ones as long as they need."""
    patience = chain(seconds, repeat(SOON_S))
    monkeypatch.setattr(Client, "deadline", lambda _: Deadline(next(patience), MAX_DOWNLOAD_S, STEP_BYTES))


def raw(*lines: str, body: bytes = b"", status: str = "200 OK") -> bytes:
    return "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status}", *lines)).encode("latin-1") + b"\r\n" + body


def announced(length: str) -> Answer:
    return Answer(raw=raw(f"Content-Length: {length}", body=CONTENT))


def chunked(size: bytes, drip_s: float = 0.0) -> Answer:
    return Answer(raw=raw("Transfer-Encoding: chunked", body=size + b"\r\n" + CONTENT), drip_s=drip_s)


def redirect(target: str) -> Answer:
    return Answer(raw=raw(f"Location: {target}", status="302 Found"))


PART = raw(f"Content-Range: bytes 5-{LENGTH - 1}/{LENGTH}", body=CONTENT[5:], status="206 Partial Content")
SERVERS = {
    "negative length": (announced("-1"), "announces a length of '-1'"),
    "length of 5,000 digits": (announced("9" * 5000), "announces a length of '999"),
    "two lengths": (announced("5\r\nContent-Length: 6"), "a header is not valid"),
    "length of a terabyte": (announced("1099511627776"), f"more than the {LENGTH} of such a file"),
    "more than the file has": (Answer(CONTENT + b"x"), f"more than the {LENGTH} of such a file"),
    "endless": (Answer(raw=raw(body=CONTENT * 9), drip_s=1e-6), f"more than the {LENGTH} bytes of such a file"),
    "chunk of -1": (chunked(b"-1", drip_s=1e-6), "the connection broke, 5 times"),
    "chunk of 10^30": (chunked(b"f" * 25), "the connection broke, 5 times"),
    "a line of chunk size without end": (chunked(b"0" * 100_000), "the connection broke, 5 times"),
    "closes in the middle, no version": (Answer(CONTENT, cut_after=9000, cuts=99, versions=False), "5 times"),
    "closes after each byte": (Answer(CONTENT, cut_after=1, cuts=99_999), "too slow: less than 250.0 kB"),
    "a part that was not asked for": (Answer(raw=PART), "the server sends a part, the whole was asked for"),
    "another part": (Answer(CONTENT, cut_after=9000, cuts=99_999, raw_part=PART), "too slow: less than 250.0 kB"),
    "416 to the whole": (Answer(raw=raw(status="416 No")), "answers 416"),
    "drips a body": (Answer(raw=raw(f"Content-Length: {LENGTH}"), drip_s=0.1), "too slow: less than 250.0 kB"),
    "drips a header": (Answer(raw=b"HTTP/1.1 200 OK\r\nX: ", drip_s=0.1), "too slow: less than 250.0 kB"),
    "drips a status": (Answer(raw=b"HTTP/1.1 2", drip_s=0.1), "too slow: less than 250.0 kB"),
    "says nothing": (Answer(CONTENT, delay_s=60.0), "too slow: less than 250.0 kB"),
    "header without end": (Answer(raw=b"HTTP/1.1 200 OK\r\nX: " + b"0" * 100_000), "it cannot be reached, 5 times"),
    "10,000 headers": (Answer(raw=raw(*["X: y"] * 10_000)), "it cannot be reached, 5 times"),
    "no HTTP": (Answer(raw=b"\x00\xff\x1b[31m" * 100), "it cannot be reached, 5 times"),
    "redirects to itself": (redirect("/w"), "more than 10 redirects"),
    "redirects to a file": (redirect("file:///etc/passwd"), "'file:///etc/passwd', which is not a web address"),
    "redirects to no address": (redirect("http://[::1"), "'http://[::1', which is not a valid address"),
    "redirects to a name of dots": (redirect("http://a..b/"), "not a valid address"),
    "redirects to no text": (redirect("http://\xff\xfe/"), "an address that is not UTF-8"),
    "redirects with an endless body": (
        Answer(raw=raw("Location: /gone", status="302 Found", body=b"x" * 9999), drip_s=1e-6),
        "answers 404",
    ),
}


@pytest.mark.parametrize(("answer", "words"), SERVERS.values(), ids=SERVERS)
def test_a_hostile_server_ends_in_time_and_the_next_source_is_tried(
    shelf: Shelf, options: FetchOptions, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch,
    answer: Answer, words: str,
) -> None:  # fmt: skip
    be_patient(monkeypatch, SOON_S, PATIENCE_S if "too slow" in words else SOON_S)  # is it there, and its file
    hostile, good = home(shelf.put("/w", answer)), home(shelf.put("/good", CONTENT))
    began = time.monotonic()
    with caplog.at_level(logging.INFO):
        assert fetch_weights(card(hostile, good), options).path.read_bytes() == CONTENT
    assert time.monotonic() - began < SOON_S
    assert words in caplog.text
    assert f"next: {good.label}" in caplog.text
    assert not [thread for thread in threading.enumerate() if thread.name == "advisor-deadline"]


GOOD = raw(f"Content-Length: {LENGTH}", 'ETag: "a"', "Accept-Ranges: bytes", body=CONTENT)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_an_answer_with_bytes_changed_is_the_file_or_the_next_source_is_tried(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    be_patient(monkeypatch)
    for number in range(CHANGED):
        draw, content = random.Random(number), bytearray(GOOD)
        for _ in range(draw.randint(1, 4)):
            start = draw.randrange(len(GOOD) - LENGTH)
            content[start : start + draw.randrange(4)] = draw.choice((b"", b"\r\n", draw.randbytes(3)))
        hostile = home(shelf.put(f"/{number}", Answer(raw=bytes(content))))
        given = fetch_weights(
            card(hostile, home(shelf.put("/good", CONTENT))), FetchOptions(cache=tmp_path / str(number))
        )
        assert given.path.read_bytes() == CONTENT, number


def test_a_server_that_drips_its_handshake_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    be_patient(monkeypatch, PATIENCE_S)
    record = b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc"

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            for byte in record + b"\0" * 10_000:
                try:
                    connection.sendall(bytes([byte]))
                except OSError:
                    return
                time.sleep(0.05)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=drip, args=(listener,), daemon=True).start()
        began = time.monotonic()
        with pytest.raises(Unavailable, match="too slow"), Client(Transport()) as client:
            client.page(f"https://127.0.0.1:{listener.getsockname()[1]}/", "text/html")
        assert time.monotonic() - began < SOON_S


def test_a_file_without_end_stops_in_time(shelf: Shelf, options: FetchOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Client, "deadline", lambda _: Deadline(60, PATIENCE_S, 1))
    shelf.put("/w", Answer(raw=raw(f"Content-Length: {LENGTH}"), drip_s=0.01))
    must_fail(WeightsError, "not done after", fetch_weights, card(home(f"{shelf.url}/w")), options)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (announced("1099511627776"), "an answer of more than"),
        (Answer(raw=raw("Content-Encoding: gzip", body=b"no gzip")), "the connection broke"),
    ],
)
def test_a_hostile_page_ends_in_time(shelf: Shelf, monkeypatch: pytest.MonkeyPatch, answer: Answer, words: str) -> None:
    be_patient(monkeypatch, SOON_S)
    with pytest.raises(Unavailable, match=words), Client(Transport()) as client:
        client.page(shelf.put("/page", answer), "text/html")
