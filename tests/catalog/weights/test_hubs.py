"""TF Hub and Hugging Face, as a real server on this machine plays them."""

from __future__ import annotations

import io
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advisor.catalog.build import build_model
from advisor.catalog.cards import MemberFile, WeightSource
from advisor.catalog.weights.fetching import fetch, locate
from advisor.catalog.weights.network import download
from advisor.catalog.weights.options import FetchOptions
from advisor.core.errors import WeightsError
from tests.catalog.conftest import Answer, Shelf
from tests.catalog.weights.conftest import CONTENT, card, sha256

pytestmark = pytest.mark.integration

HANDLE = "/google/imagenet/mobilenet_v1_025_32/classification/5"
ASKED = f"{HANDLE}?tf-hub-format=compressed"
MEMBERS = ("variables/variables.index", "variables/variables.data-00000-of-00001")


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait a hundredth of the real pauses."""
    monkeypatch.setattr(download, "FIRST_PAUSE_S", 0.004)


def packed(members: dict[str, bytes], **special: tarfile.TarInfo) -> bytes:
    """A tar.gz as the hub sends it; ``special`` headers stand for the members of their names."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(f"./{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for info in special.values():
            archive.addfile(info)
    return out.getvalue()


def files() -> dict[str, bytes]:
    """Stand-ins for a SavedModel's variables."""
    return {name: f"{name} ".encode() * 500 for name in MEMBERS}


def handle(url: str, members: dict[str, bytes]) -> WeightSource:
    first, second = (MemberFile(name, sha256(members[name])) for name in MEMBERS)
    return WeightSource("tfhub", "checkpoint", "slim_mobilenet_v1", first, (second,), url=url + HANDLE)


def test_a_handle_is_asked_for_its_archive_and_redirects_are_followed(shelf: Shelf, options: FetchOptions) -> None:
    shelf.put(ASKED, Answer(status=302, headers={"Location": f"{shelf.url}/storage/1.tar.gz"}))
    shelf.put("/storage/1.tar.gz", packed(files() | {"saved_model.pb": b"never read"}))
    found = fetch(card(handle(shelf.url, files())), options)
    assert {path.name for path in found.path.parent.iterdir()} == {name.rpartition("/")[2] for name in MEMBERS}
    assert found.path.read_bytes() == files()[MEMBERS[0]]
    assert fetch(card(handle(shelf.url, files())), options).source == "cache"


def test_a_handle_with_a_question_of_its_own_keeps_it(shelf: Shelf, options: FetchOptions) -> None:
    shelf.put("/model?version=2&tf-hub-format=compressed", packed(files()))
    fetch(card(replace(handle(shelf.url, files()), url=f"{shelf.url}/model?version=2")), options)


def test_an_archive_that_is_slow_and_cut_off_is_resumed(shelf: Shelf, options: FetchOptions) -> None:
    rng = np.random.default_rng(0)
    large = {name: rng.bytes(400_000) for name in MEMBERS}  # noise: it must not shrink
    shelf.put(ASKED, Answer(packed(large), cut_after=300_000, delay_s=0.1))
    found = fetch(card(handle(shelf.url, large)), options)
    assert found.sha256 == sha256(large[MEMBERS[0]])
    assert [headers.get("Range") is not None for headers in shelf.asked(ASKED)] == [False, True]


def test_a_handle_that_is_gone_is_said_with_its_address(shelf: Shelf, options: FetchOptions) -> None:
    with pytest.raises(WeightsError, match=r"mobilenet_v1_025_32.*the server answers 404"):
        fetch(card(handle(shelf.url, files())), options)


def test_an_archive_with_another_model_in_it_is_refused_with_both_hashes(shelf: Shelf, options: FetchOptions) -> None:
    other = {name: data[:-1] for name, data in files().items()}
    shelf.put(ASKED, packed(other))
    with pytest.raises(WeightsError) as raised:
        fetch(card(handle(shelf.url, files())), options)
    assert sha256(other[MEMBERS[0]]) in raised.value.message
    assert sha256(files()[MEMBERS[0]]) in raised.value.message
    assert locate(card(handle(shelf.url, files())), options) is None


def test_a_handle_whose_files_have_no_hashes_is_not_asked(shelf: Shelf, options: FetchOptions) -> None:
    source = handle(shelf.url, files())
    with pytest.raises(WeightsError, match="hash is not known"):
        fetch(card(replace(source, companions=(MemberFile(MEMBERS[1]),))), options)
    assert shelf.asked(ASKED) == []


def link(kind: bytes, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(MEMBERS[1])
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE])
def test_a_member_that_is_no_plain_file_is_refused(shelf: Shelf, options: FetchOptions, kind: bytes) -> None:
    shelf.put(ASKED, packed({MEMBERS[0]: files()[MEMBERS[0]]}, second=link(kind, "/etc/passwd")))
    with pytest.raises(WeightsError, match="not a plain file"):
        fetch(card(handle(shelf.url, files())), options)


def test_paths_that_leave_the_archive_write_nothing(shelf: Shelf, options: FetchOptions, tmp_path: Path) -> None:
    absolute = tmp_path / "outside" / "escaped"
    escaping = {"../../../escaped": b"x", str(absolute): b"x"}
    shelf.put(ASKED, packed(escaping | files()))
    fetch(card(handle(shelf.url, files())), options)
    assert not absolute.parent.exists()
    assert [path for path in tmp_path.rglob("*") if "escaped" in path.name] == []


def test_a_member_larger_than_its_card_says_is_refused(shelf: Shelf, options: FetchOptions) -> None:
    source = handle(shelf.url, files())
    shelf.put(ASKED, packed(files()))
    with pytest.raises(WeightsError, match="more than the 100 that are expected"):
        fetch(card(replace(source, file=replace(source.file, size_bytes=100))), options)


def slim_saved_model(folder: Path, network: Any) -> None:
    """Write the network's weights as TF-Slim's module on the hub has them."""
    import tensorflow as tf

    module = tf.Module()
    module.variables_ = []
    parts = {"gamma": "gamma", "beta": "beta", "moving_mean": "moving_mean", "moving_variance": "moving_variance"}
    for layer in network.layers:
        for weight in layer.weights:
            scope = layer.name.removesuffix("_bn").replace("conv_dw_", "Conv2d_").replace("conv_pw_", "Conv2d_")
            scope = "Conv2d_0" if scope == "conv1" else scope
            scope += "_depthwise" if "_dw_" in layer.name else "_pointwise" if "_pw_" in layer.name else ""
            scope = "Logits/Conv2d_1c_1x1" if layer.name == "logits" else scope
            kernel = "depthwise_weights" if "_dw_" in layer.name else "weights"
            last = f"BatchNorm/{parts[weight.name]}" if weight.name in parts else kernel
            last = "biases" if weight.name == "bias" else last
            module.variables_.append(tf.Variable(np.asarray(weight), name=f"MobilenetV1/{scope}/{last}"))
    tf.saved_model.save(module, str(folder))


def test_a_real_saved_model_from_the_hub_fills_the_graph(shelf: Shelf, options: FetchOptions, tmp_path: Path) -> None:
    import keras

    small = replace(
        card(),
        architecture="mobilenet_v1",
        arguments=(("width", 0.25),),
        classes=11,
        preprocessing=card().preprocessing,
    )
    original = build_model(small, None)
    slim_saved_model(tmp_path / "m", original)
    members = {name: (tmp_path / "m" / name).read_bytes() for name in MEMBERS}
    shelf.put(ASKED, packed(members | {"saved_model.pb": (tmp_path / "m" / "saved_model.pb").read_bytes()}))
    filled = build_model(small, fetch(replace(small, weights=(handle(shelf.url, members),)), options))
    image = np.random.default_rng(1).normal(size=(1, 32, 32, 3)).astype(np.float32)
    for key, values in original(image).items():
        assert np.allclose(filled(image)[key], values, atol=1e-6)
    keras.backend.clear_session()


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
