"""Archives that are honest, damaged and hostile."""

import gzip
import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from advisor.downloads import delivery as module
from advisor.downloads.delivery import extract_member
from advisor.downloads.files import Unavailable
from tests.catalog.weights.conftest import CONTENT, MEMBER, tarball, wheel


def tar_of(*entries: tarfile.TarInfo) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for entry in entries:
            archive.addfile(entry, io.BytesIO(bytes(entry.size)) if entry.isreg() else None)
    return out.getvalue()


def link(kind: bytes, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(MEMBER)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize("data", [wheel(), tarball(), gzip.decompress(tarball())], ids=["zip", "tar.gz", "tar"])
def test_the_one_member_is_read(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a").write_bytes(data)
    extract_member(tmp_path / "a", MEMBER, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == CONTENT
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "out"]


@pytest.mark.parametrize("member", ["../escape", "/etc/passwd", "a/../../b", "a\\..\\b"])
def test_a_path_that_leaves_the_archive_is_refused(tmp_path: Path, member: str) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(member, b"x")
    (tmp_path / "a").write_bytes(out.getvalue())
    with pytest.raises(Unavailable, match="leaves the archive"):
        extract_member(tmp_path / "a", member, tmp_path / "out")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE])
def test_links_pipes_and_folders_in_a_tar_are_refused(tmp_path: Path, kind: bytes) -> None:
    (tmp_path / "a").write_bytes(tar_of(link(kind, "/etc/passwd")))
    with pytest.raises(Unavailable, match="not a plain file"):
        extract_member(tmp_path / "a", MEMBER, tmp_path / "out")


def test_a_symlink_in_a_zip_is_refused(tmp_path: Path) -> None:
    info = zipfile.ZipInfo(MEMBER)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(info, "/etc/passwd")
    (tmp_path / "a").write_bytes(out.getvalue())
    with pytest.raises(Unavailable, match="not a plain file"):
        extract_member(tmp_path / "a", MEMBER, tmp_path / "out")


@pytest.mark.parametrize("data", [wheel(), tarball()], ids=["zip", "tar"])
def test_a_member_larger_than_expected_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(Unavailable, match="more than the 100"):
        extract_member(tmp_path / "a", MEMBER, tmp_path / "out", limit=100)


def test_a_header_of_ten_gigabytes_is_refused_unread(tmp_path: Path) -> None:
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, 10 * 2**30
    (tmp_path / "a").write_bytes(gzip.compress(header.tobuf(tarfile.GNU_FORMAT) + bytes(2048)))
    with pytest.raises(Unavailable, match="header of 10737418240 bytes"):
        extract_member(tmp_path / "a", MEMBER, tmp_path / "out")


def test_an_archive_that_unpacks_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_UNPACKED_BYTES", 100_000)
    filler = tarfile.TarInfo("filler")
    filler.size = 10_000_000
    (tmp_path / "a").write_bytes(tar_of(filler))
    with pytest.raises(Unavailable, match="unpacks to more than"):
        extract_member(tmp_path / "a", MEMBER, tmp_path / "out")


@pytest.mark.parametrize("data", [b"", b"no archive", wheel()[:-30], tarball()[:-30], b"\x1f\x8b" + bytes(40)])
def test_a_damaged_archive_is_unavailable_not_a_crash(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(Unavailable):
        extract_member(tmp_path / "a", "other", tmp_path / "out")
