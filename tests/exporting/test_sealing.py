"""Encrypted bundles: opened in memory by their own loader, refused where one bit or the key differs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.core.errors import UsageError
from advisor.exporting.bundle import Bundle, export
from advisor.exporting.sealing import read_key, seal
from advisor.exporting.shipped.sealed_model import SealError, open_model
from advisor.store import RunFolder
from tests.exporting.conftest import evaluation_of

KEY = bytes(range(32))


@pytest.fixture(scope="module")
def sealed(trained: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = tmp_path_factory.mktemp("sealed")
    (folder / "model.key").write_text(KEY.hex() + "\n")
    key = evaluation_of(trained, "int8").configuration.key
    return export(trained.path, folder / "bundle", pick=key, key_file=folder / "model.key")


def test_no_plain_model_is_in_the_bundle(sealed: Bundle) -> None:
    assert "model.tflite.sealed" in sealed.files
    assert not any(name.endswith(".tflite") for name in sealed.files)
    found = b"".join(path.read_bytes() for path in sealed.path.rglob("*.sealed"))
    assert b"TFL3" not in found


def test_the_loader_gives_the_model_back(sealed: Bundle) -> None:
    assert open_model(sealed.path / "model.tflite.sealed", KEY) == sealed.model.content


def test_checker_and_snippet_open_it(sealed: Bundle, tmp_path: Path) -> None:
    from PIL import Image

    (tmp_path / "k").write_bytes(KEY)
    Image.new("RGB", (300, 200), "red").save(tmp_path / "red.png")
    environment = {**os.environ, "MODEL_KEY_FILE": str(tmp_path / "k")}

    def ran(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)

    checked = ran(sealed.path / "check.py", "--key-file", tmp_path / "k")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    classified = ran(sealed.path / "python" / "classify.py", "red.png")
    assert classified.stdout.startswith("red.png: "), classified.stderr
    keyless = ran(sealed.path / "check.py")
    assert keyless.returncode == 1
    assert "--key-file" in keyless.stderr


def test_the_same_key_and_model_give_the_same_bytes(trained: RunFolder, sealed: Bundle, tmp_path: Path) -> None:
    (tmp_path / "k").write_bytes(KEY)
    again = export(trained.path, tmp_path / "b", pick=sealed.evaluation.configuration.key, key_file=tmp_path / "k")
    for name in sealed.files:
        assert (again.path / name).read_bytes() == (sealed.path / name).read_bytes()


def test_another_model_gets_another_nonce() -> None:
    assert seal(b"one", KEY)[24:36] != seal(b"two", KEY)[24:36]


def test_another_key_is_refused(sealed: Bundle) -> None:
    with pytest.raises(SealError, match="another key"):
        open_model(sealed.path / "model.tflite.sealed", KEY[::-1])


@settings(max_examples=60, deadline=None)
@given(bit=st.integers(0, 8 * len(seal(b"a model of some bytes", KEY)) - 1))
def test_one_flipped_bit_is_refused(tmp_path_factory: pytest.TempPathFactory, bit: int) -> None:
    content = bytearray(seal(b"a model of some bytes", KEY))
    content[bit // 8] ^= 1 << bit % 8
    path = tmp_path_factory.mktemp("flipped") / "model.sealed"
    path.write_bytes(content)
    with pytest.raises(SealError):
        open_model(path, KEY)


@pytest.mark.parametrize("content", [b"", b"ADVSEAL1", b"x" * 100])
def test_what_is_no_sealed_model_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(SealError, match="is not a sealed model"):
        open_model(tmp_path / "x", KEY)


@pytest.mark.parametrize("content", [b"", b"short", b"g" * 64, bytes(33), b"\xff" * 64])
def test_what_is_no_key_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(UsageError, match="neither 32 bytes nor 64 hexadecimal digits"):
        read_key(tmp_path / "key")


def test_a_key_file_that_is_not_there_is_refused(trained: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        export(trained.path, tmp_path / "b", key_file=tmp_path / "none")
    assert not (tmp_path / "b").exists()


def test_the_bundle_names_the_key_by_its_identity_alone(sealed: Bundle) -> None:
    document = json.loads((sealed.path / "bundle.json").read_text())
    assert document["sealed"] is True
    assert len(document["key_id"]) == 32
    everything = b"".join(path.read_bytes() for path in sealed.path.rglob("*") if path.is_file())
    assert KEY not in everything
    assert KEY.hex().encode() not in everything
