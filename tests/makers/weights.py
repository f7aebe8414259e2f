"""Cards over small files, and a machine whose pip and npm are set up for the test alone."""

import hashlib
import io
import os
import tarfile
import zipfile

import pytest

from advisor.catalog import Card, Preprocessing
from advisor.store import MemberFile, WeightSource

CONTENT = b"weights " * 4096
MEMBER = "package/models/tiny.h5"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def card(*sources: WeightSource) -> Card:
    """A card whose only interest is its weights."""
    plain = Preprocessing((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    return Card("tiny", "tiny", 32, plain, 1, 1, "MIT", "none", "mobilenet_v2", weights=sources)


def home(url: str, content: bytes = CONTENT) -> WeightSource:
    """A file at an official address."""
    return WeightSource("url", "keras_h5", "keras", MemberFile("tiny.h5", sha256(content), len(content)), url=url)


def packaged(kind: str, archive: bytes, name: str, content: bytes = CONTENT) -> WeightSource:
    """A member of an archive on an index or a registry."""
    return WeightSource(
        "npm" if kind == "npm" else "pypi",
        "keras_h5",
        "keras",
        MemberFile(MEMBER, sha256(content), len(content)),
        package="tiny_weights",
        version="1.0",
        archive=name,
        archive_sha256=sha256(archive),
    )


def wheel(content: bytes = CONTENT) -> bytes:
    """A zip with the member in it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("package/__init__.py", "raise SystemExit('a package that was run')")
        archive.writestr(MEMBER, content)
    return out.getvalue()


def tarball(content: bytes = CONTENT) -> bytes:
    """A tar.gz with the member in it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        info = tarfile.TarInfo(MEMBER)
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


@pytest.fixture
def own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No configuration of this machine's user reaches the test; in one home, pip and npm are asked for theirs once."""
    for name in list(os.environ):
        if name.startswith(("PIP_", "ADVISOR_")) or name.lower().startswith(
            ("npm_config_", "http_proxy", "https_proxy")
        ):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("HOME", str(tmp_path_factory.getbasetemp() / "home"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
