"""Models of timm and torchvision: what the packages know goes on the card, and a wrong name is refused."""

import importlib.util
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advisor import catalog
from advisor.catalog import Array
from advisor.catalog._user_models import packages as model_packages, pt2
from advisor.catalog._user_models.comparison import IMAGES, OriginalLayer, draw_crops, find_first_wrong
from advisor.catalog._user_models.handles import local_source
from advisor.catalog._user_models.packages import export_package, is_source
from advisor.catalog._user_models.pt2 import read_archive, write_copy
from advisor.core import UsageError, install_extra
from tests.builders import must_fail, write_file
from tests.catalog.user_models.pt2_files import Program, members, tensor, weights, write
from tests.tables import with_cases

SIZE = 64
RNG = np.random.default_rng(0)


@pytest.fixture
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The packages' caches in a folder of the test's own; a server is not asked."""
    for name in ("torch", "torchvision", "timm", "onnxscript"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed; continuous integration cannot install PyTorch")
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("ADVISOR_CONFIG_DIR", str(tmp_path / "config"))
    return tmp_path


@pytest.mark.slow
def test_a_model_of_torchvision_becomes_a_card_with_its_facts(caches: Path) -> None:
    import torch
    from torchvision import models

    file = Path(models.get_model_weights("squeezenet1_1").DEFAULT.url).name
    kept = caches / "torch" / "hub" / "checkpoints"
    kept.mkdir(parents=True)
    torch.manual_seed(0)
    torch.save(models.squeezenet1_1().state_dict(), kept / file)
    card = catalog.add("torchvision:squeezenet1_1", input_size=SIZE, into=caches / "own.yaml").card
    assert (card.name, card.input_size, card.classes, card.top1()) == ("squeezenet1_1", SIZE, 1000, 58.178)
    assert card.preprocessing.mean == pytest.approx((123.675, 116.28, 103.53))
    assert "torchvision:squeezenet1_1 (torchvision " in card.note
    assert "evaluated on a center crop of 224 of 256, bilinear" in card.note
    assert card.licence.startswith("BSD")


@pytest.mark.slow
def test_a_model_of_timm_brings_what_its_package_knows(caches: Path) -> None:
    import timm
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(0)
    model: Any = timm.create_model("mobilenetv3_small_050")
    revision = "0" * 40
    kept = caches / "hub" / "hub" / ("models--" + model.pretrained_cfg["hf_hub_id"].replace("/", "--"))
    (kept / "snapshots" / revision).mkdir(parents=True)
    write_file(kept / "refs" / "main", revision)
    save_file(model.state_dict(), kept / "snapshots" / revision / "model.safetensors")
    with local_source("timm:mobilenetv3_small_050", SIZE) as found:
        assert found.path.name == "mobilenetv3_small_050.pt2"
        assert (found.metadata.licence, len(found.metadata.labels)) == ("apache-2.0", 1000)
        assert found.metadata.std == pytest.approx((58.395, 57.12, 57.375))
        assert "evaluated on a center crop of 0.875, bicubic" in found.origin


@pytest.mark.slow
@with_cases
def test_what_a_package_does_not_have_is_refused(caches: Path, source: str, said: str) -> None:
    with pytest.raises(UsageError, match=said), export_package(source):
        pytest.fail("it was exported")


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_packages.importlib.util, "find_spec", lambda _name: None)
    missing = "the packages torch and timm are missing"
    with pytest.raises(UsageError, match=missing) as raised, export_package("timm:resnet18"):
        pytest.fail("it was exported")
    assert install_extra("torch") in raised.value.hint


def test_a_source_is_the_name_of_a_package_and_a_model() -> None:
    assert all(map(is_source, ("timm:resnet18", "torchvision:x")))
    assert not any(map(is_source, ("timm", "net.pt2")))


def graph(program: Program) -> Any:
    return program["graph_module"]["graph"]


CHANGES: dict[str, Callable[..., object]] = {
    "target": lambda program, name: graph(program)["nodes"][0].update(target=name),
    "argument": lambda program, *of: graph(program)["nodes"][0]["inputs"].append(
        {"name": of[0], "arg": of[1], "kind": 1}
    ),
    "shape": lambda program, sizes, dtype: graph(program)["tensor_values"].update(x=tensor(*sizes, dtype=dtype)),
    "size": lambda program, size: graph(program)["tensor_values"]["x"]["sizes"].__setitem__(0, size),
    "spec": lambda program, key, spec: program["graph_module"]["signature"][key].append(spec),
    "entry": lambda program, entry: program.update(entry),
    "missing": lambda program, name: program.pop(name),
    "nodes": lambda program, nodes: graph(program).update(nodes=nodes),
}


def test_the_copy_for_pytorch_has_no_sample_inputs_guards_or_descriptions_of_code(tmp_path: Path) -> None:
    def with_code(program: Program) -> None:
        program["guards_code"] = ["__import__('os').system('true')"]
        program["graph_module"]["treespec_namedtuple_fields"] = {"somebody.Result": ["scores"]}

    found = read_archive(write(tmp_path / "net.pt2", members()))
    assert (found.side, found.torch) == (32, "2.13.0+cpu")
    copy = tmp_path / "copy.pt2"
    write_copy(write(tmp_path / "net.pt2", {**members(with_code), "extra/notes": b"text"}), copy)
    with zipfile.ZipFile(copy) as archive:
        program = json.loads(archive.read("net/models/model.json"))
        assert archive.read("net/data/sample_inputs/model.pt") == b""
        assert "net/extra/notes" not in archive.namelist()
        assert archive.read("net/data/weights/weight_0") == bytes(4 * 5 * 27)
    text = json.dumps(program)
    assert "import" not in text
    assert "somebody" not in text


@with_cases
def test_another_member_is_refused_by_name(tmp_path: Path, name: str, said: str) -> None:
    raised = must_fail(UsageError, said, read_archive, write(tmp_path / "net.pt2", {**members(), name: b"x"}))
    assert "torch.export" in raised.hint


@with_cases
def test_another_program_is_refused_with_the_reason(tmp_path: Path, change: str, values: list[Any], said: str) -> None:
    changed = members(lambda program: CHANGES[change](program, *values))
    must_fail(UsageError, said, read_archive, write(tmp_path / "net.pt2", changed))


@with_cases
def test_other_weights_are_refused_with_the_reason(tmp_path: Path, table: dict[str, Any] | None, said: str) -> None:
    described = {"config": {"conv.weight": {}}} if table is None else weights(**table)
    must_fail(UsageError, said, read_archive, write(tmp_path / "net.pt2", members(table=described)))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"x" * 400, pickle.dumps({"state": 1})])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "net.pt2").write_bytes(content)
    must_fail(UsageError, "is not a usable .pt2 file", read_archive, tmp_path / "net.pt2")


def test_a_damaged_archive_and_one_of_another_program_are_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "net.pt2", members())
    file.write_bytes(file.read_bytes().replace(b"graph_module", b"grapi_module", 1))
    must_fail(UsageError, "Bad CRC-32", read_archive, file)
    with pytest.raises(UsageError, match="is not an archive of torch.export.save"):
        read_archive(write(tmp_path / "net.pt2", {"version": b"3"}))


@with_cases
def test_what_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, said: str) -> None:
    monkeypatch.setattr(pt2, limit, 100)
    must_fail(UsageError, f"{said} bytes", read_archive, write(tmp_path / "net.pt2", members()))


def maps() -> Array:
    return RNG.normal(size=(1, 4, 6, 5)).astype(np.float32)


def chain(*inputs: tuple[str, ...]) -> list[OriginalLayer]:
    """Layers ``a``, ``b``, ... that read the given ones."""
    return [OriginalLayer(chr(ord("a") + place), "Conv", read, maps()) for place, read in enumerate(inputs)]


@with_cases
def test_the_first_of_the_wrong_layers_is_named(inputs: tuple[tuple[str, ...]], right: str, wrong: str | None) -> None:
    layers = chain(*inputs)
    activations = [layer.values if layer.name in right else maps() for layer in layers]
    found = find_first_wrong(layers, [values.transpose(0, 2, 3, 1) for values in activations])
    assert (found.name if found else None) == wrong


def test_the_crops_are_always_the_same_and_normalised_and_small_differences_do_not_count() -> None:
    (layer,) = chain(())
    values = layer.values.transpose(0, 2, 3, 1)
    assert find_first_wrong([layer], [values + np.float32(1e-5)]) is None
    assert find_first_wrong([layer], [values + np.float32(0.1)]) is layer
    images = draw_crops(24)
    assert images.shape == (IMAGES, 24, 24, 3)
    assert np.array_equal(images, draw_crops(24))
    assert images.mean(axis=(1, 2, 3)) == pytest.approx(np.zeros(IMAGES), abs=1e-3)
