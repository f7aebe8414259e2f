"""Downloads over a bad line, from a real server on this machine; where redirects may lead; archives."""

import gzip
import io
import stat
import tarfile
import zipfile
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from advisor.store import Unavailable
from advisor.store._downloads import delivery
from advisor.store._downloads.transport import Client, Transport, _resolve_redirect
from tests.builders import must_fail
from tests.makers.servers import Answer, Shelf
from tests.makers.weights import CONTENT, MEMBER, tarball, wheel
from tests.tables import with_cases

BODY = bytes(range(256)) * 8192
LINKS = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE)
LEAVING = ("../escape", "/etc/passwd", "a/../../b", "a\\..\\b")
DAMAGED = (b"", b"no archive", wheel()[:-30], tarball()[:-30], b"\x1f\x8b" + bytes(40))


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "FIRST_PAUSE_S", 0.004)


def fetch(url: str, target: Path, timeout_s: float = 120.0, most_bytes: int = delivery.MAX_DOWNLOAD_BYTES) -> bytes:
    with Client(Transport(connect_timeout_s=timeout_s, read_timeout_s=timeout_s)) as client:
        delivery.Download(client, url, target, lambda *_: None, most_bytes).run()
    return target.read_bytes()


def test_a_cut_off_download_goes_on_where_it_broke(shelf: Shelf, tmp_path: Path) -> None:
    url = shelf.put("/w", Answer(BODY, cut_after=1_000_000))
    assert fetch(url, tmp_path / "w") == BODY
    first, second = shelf.asked("/w")
    assert "Range" not in first
    assert 0 < int(second["Range"].removeprefix("bytes=").rstrip("-")) <= 1_000_000


def test_a_server_without_ranges_or_with_another_file_is_asked_again(shelf: Shelf, tmp_path: Path) -> None:
    assert fetch(shelf.put("/w", Answer(BODY, cut_after=1_000_000, ranges=False)), tmp_path / "w") == BODY
    left_by_an_earlier_run(shelf, tmp_path / "w", Answer(BODY[::-1]))
    assert fetch(shelf.put("/w", BODY), tmp_path / "w") == BODY


def left_by_an_earlier_run(shelf: Shelf, target: Path, answer: Answer, path: str = "/w") -> int:
    """Begin a download that fails in the middle; return how many bytes it left."""
    broken = replace(answer, cut_after=700_000, cuts=1, raw_part=b"HTTP/1.1 404 Gone\r\n\r\n")
    must_fail(Unavailable, "", fetch, shelf.put(path, broken), target)
    shelf.requests.clear()
    return target.stat().st_size


def test_what_an_earlier_run_left_is_continued(shelf: Shelf, tmp_path: Path) -> None:
    had = left_by_an_earlier_run(shelf, tmp_path / "w", Answer(BODY))
    assert 0 < had < len(BODY)
    assert fetch(shelf.put("/w", BODY), tmp_path / "w") == BODY
    (asked,) = shelf.asked("/w")
    assert (asked["Range"], asked["If-Range"]) == (f"bytes={had}-", Answer(BODY).version)


def test_the_time_of_the_last_change_is_a_version_too(shelf: Shelf, tmp_path: Path) -> None:
    dated = Answer(BODY, versions=False, headers={"Last-Modified": "Sat, 21 Nov 2026 08:00:00 GMT"})
    left_by_an_earlier_run(shelf, tmp_path / "w", dated)
    assert fetch(shelf.put("/w", dated), tmp_path / "w") == BODY
    assert shelf.asked("/w")[0]["If-Range"] == "Sat, 21 Nov 2026 08:00:00 GMT"


@pytest.mark.parametrize(
    "answer",
    [Answer(BODY, versions=False), Answer(BODY, versions=False, headers={"ETag": 'W/"1"'})],
    ids=["none", "weak"],
)
def test_without_a_version_nothing_is_continued(shelf: Shelf, tmp_path: Path, answer: Answer) -> None:
    (tmp_path / "w").write_bytes(BODY[:700_000])
    assert fetch(shelf.put("/w", replace(answer, cut_after=1_000_000)), tmp_path / "w") == BODY
    assert all("Range" not in headers for headers in shelf.asked("/w"))


def test_what_another_address_left_is_not_continued_and_a_whole_file_stays(shelf: Shelf, tmp_path: Path) -> None:
    left_by_an_earlier_run(shelf, tmp_path / "w", Answer(BODY), "/other")
    fetch(shelf.put("/w", BODY), tmp_path / "w")
    assert "Range" not in shelf.asked("/w")[0]
    for _ in range(2):
        assert fetch(shelf.put("/w", BODY), tmp_path / "w") == BODY
    assert shelf.asked("/w")[1]["Range"] == f"bytes={len(BODY)}-"


@with_cases
def test_another_part_than_was_asked_for_is_not_used(shelf: Shelf, tmp_path: Path, status: str, part: str) -> None:
    lines = (f"HTTP/1.1 {status}", *part.format(bytes=len(BODY), last=len(BODY) - 1).splitlines(), "Content-Length: 5")
    head = "".join(f"{line}\r\n" for line in lines).replace("THIS", Answer(BODY).version)
    answer = Answer(BODY, cut_after=700_000, raw_part=f"{head}\r\nwrong".encode())
    assert fetch(shelf.put("/w", answer), tmp_path / "w") == BODY
    assert ["Range" in headers for headers in shelf.asked("/w")] == [False, True, False]


def test_a_busy_server_is_asked_after_pauses_and_given_up_where_it_stays_busy(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    must_fail(Unavailable, "503", fetch, shelf.put("/busy", Answer(BODY, refusals=99)), tmp_path / "w")
    assert len(shelf.asked("/busy")) == delivery.ATTEMPTS
    pauses: list[float] = []
    # Not the function of the module: threads that earlier tests left sleep, too.
    monkeypatch.setattr(delivery, "time", SimpleNamespace(sleep=pauses.append))
    assert fetch(shelf.put("/w", Answer(BODY, refusals=4)), tmp_path / "w") == BODY
    assert [pause for pause in pauses if pause] == [delivery.FIRST_PAUSE_S * 2**power for power in range(4)]


def test_a_missing_file_is_asked_for_once_and_a_silent_server_given_up(shelf: Shelf, tmp_path: Path) -> None:
    must_fail(Unavailable, "404", fetch, shelf.url + "/nothing", tmp_path / "w")
    assert len(shelf.asked("/nothing")) == 1
    with pytest.raises(Unavailable, match="time-out"):
        fetch(shelf.put("/w", Answer(BODY, delay_s=60.0)), tmp_path / "w", timeout_s=0.05)


def test_an_absurd_size_is_refused_before_a_byte_is_written(shelf: Shelf, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="2097152 bytes are announced, more than the 1000 of such a file"):
        fetch(shelf.put("/w", BODY), tmp_path / "w", most_bytes=1000)
    assert not (tmp_path / "w").exists()


def test_the_password_in_an_address_is_in_no_message(shelf: Shelf, tmp_path: Path) -> None:
    raised = must_fail(Unavailable, "", fetch, shelf.url.replace("//", "//me:secret@") + "/nothing", tmp_path / "w")
    assert "secret" not in str(raised)
    assert shelf.asked("/nothing")[0]["Authorization"].startswith("Basic ")


@with_cases
def test_a_redirect_may_be_relative_and_lead_to_another_host(target: str, there: str) -> None:
    assert _resolve_redirect("https://host.example/a", target) == there


def test_a_redirect_does_not_give_up_the_encryption() -> None:
    with pytest.raises(Unavailable, match="redirects from https to 'http://host.example/b', without encryption"):
        _resolve_redirect("https://host.example/a", "http://me:secret@host.example/b")


def test_a_redirect_to_another_host_does_not_get_the_credentials(shelf: Shelf) -> None:
    other = shelf.url.replace("127.0.0.1", "localhost")
    shelf.put("/a", Answer(status=302, headers={"Location": f"{other}/b"}))
    shelf.put("/b", b"here")
    here = shelf.url.partition("//")[2]
    with Client(Transport(credentials=((here, "me", "secret"),))) as client:
        body, response = client.page(f"{shelf.url}/a", "*/*")
    assert (body, response.url) == (b"here", f"{other}/b")
    assert "Authorization" in shelf.asked("/a")[0]
    assert "Authorization" not in shelf.asked("/b")[0]


def tar_of(*entries: tarfile.TarInfo) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for entry in entries:
            archive.addfile(entry, io.BytesIO(bytes(entry.size)) if entry.isreg() else None)
    return out.getvalue()


def link(kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(MEMBER)
    info.type, info.linkname = kind, "/etc/passwd"
    return info


@pytest.mark.parametrize("data", [wheel(), tarball(), gzip.decompress(tarball())], ids=["zip", "tar.gz", "tar"])
def test_the_one_member_is_read(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a").write_bytes(data)
    delivery.extract_member(tmp_path / "a", MEMBER, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == CONTENT
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "out"]


def zip_of(member: str | zipfile.ZipInfo, content: bytes | str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(member, content)
    return out.getvalue()


def symlink() -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(MEMBER)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


def filler() -> tarfile.TarInfo:
    info = tarfile.TarInfo("filler")
    info.size = 10_000_000
    return info


def huge_header() -> bytes:
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, 10 * 2**30
    return gzip.compress(header.tobuf(tarfile.GNU_FORMAT) + bytes(2048), mtime=0)


def sparse_map() -> bytes:
    """One header, followed by blocks of a map, each of which announces the next."""
    header = bytearray(tarfile.TarInfo("filler").tobuf(tarfile.GNU_FORMAT))
    header[156:157], header[482], header[148:156] = b"S", 1, b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    block = bytearray(512)
    block[504] = 1
    return gzip.compress(bytes(header) + bytes(block) * 2000, mtime=0)


@pytest.mark.parametrize(
    ("data", "member", "words"),
    [
        (zip_of(symlink(), "/etc/passwd"), MEMBER, "not a plain file"),
        *((tar_of(link(kind)), MEMBER, "not a plain file") for kind in LINKS),
        *((zip_of(name, b"x"), name, "leaves the archive") for name in LEAVING),
        *((data, MEMBER, "more than the 100 ") for data in (wheel(), tarball())),
        (huge_header(), MEMBER, "header of 10737418240 bytes"),
        *((data, MEMBER, "unpacks to more than") for data in (tar_of(filler()), sparse_map())),
        *((data, "other", "") for data in DAMAGED),
    ],
    ids=count(),  # the content has the time in it, and no name may differ between workers
)
def test_an_archive_with_more_or_other_than_the_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, member: str, words: str
) -> None:
    monkeypatch.setattr(delivery, "MAX_UNPACKED_BYTES", 100_000)
    (tmp_path / "a").write_bytes(data)
    must_fail(Unavailable, words, delivery.extract_member, tmp_path / "a", member, tmp_path / "out", limit=100)


def test_a_gzip_of_two_members_is_read_whole(tmp_path: Path) -> None:
    plain = gzip.decompress(tarball())
    (tmp_path / "a").write_bytes(gzip.compress(plain[:700]) + gzip.compress(plain[700:]))
    delivery.extract_member(tmp_path / "a", MEMBER, tmp_path / "out")
    assert (tmp_path / "out").stat().st_size > 100
