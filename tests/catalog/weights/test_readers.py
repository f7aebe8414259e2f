"""Caffe, GraphDef, ONNX, TF.js, Keras and TFLite files: what is in them comes out, and damage is a clear error."""

import contextlib
import json
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from hypothesis import given, strategies as st

from advisor.catalog._weights.mapping import map_weights
from advisor.catalog._weights.readers import FORMATS, read_tensors
from advisor.core import WeightsError
from tests.builders import must_fail, write_file
from tests.tables import with_cases

KERNEL = np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2)
MODELS = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "models"
QUANTIZED = MODELS / "mobilenet_v1_0.25_128_quant.tflite"
needs_models = pytest.mark.skipif(not QUANTIZED.is_file(), reason="../shared/data/models is not here")


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def message(*entries: tuple[int, int | bytes]) -> bytes:
    """Protocol buffers' encoding of (field number, value) pairs."""
    out = b""
    for number, value in entries:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            out += varint(number << 3 | 2) + varint(len(value)) + value
    return out


@pytest.mark.parametrize("format_name", ["caffemodel", "graphdef", "onnx"])
@given(data=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, format_name: str, data: bytes) -> None:
    path = write_file(tmp_path_factory.getbasetemp() / "any", data)
    with contextlib.suppress(WeightsError):
        read_tensors(format_name, path)


def caffemodel(shape: bytes) -> bytes:
    blob = message((5, KERNEL.tobytes())) + shape
    bias = message((5, np.ones(2, np.float32).tobytes()), (7, message((1, varint(2)))))
    return message((1, b"net"), (100, message((1, b"conv1"), (7, blob), (7, bias))))


@pytest.mark.parametrize(
    "shape",
    [
        message((7, message((1, b"".join(map(varint, KERNEL.shape)))))),
        message(*zip((1, 2, 3, 4), KERNEL.shape, strict=True)),
    ],
    ids=["sizes", "the old four sizes"],
)
def test_a_caffemodel_is_read_with_its_shapes(tmp_path: Path, shape: bytes) -> None:
    (tmp_path / "m").write_bytes(caffemodel(shape))
    tensors = read_tensors("caffemodel", tmp_path / "m")
    assert np.array_equal(tensors["conv1/0"], KERNEL)
    assert tensors["conv1/1"].tolist() == [1, 1]


def graphdef(shape: tuple[int, ...]) -> bytes:
    dims = b"".join(message((2, message((1, size)))) for size in shape)
    tensor = message((1, 1), (2, dims), (4, KERNEL.tobytes()))
    attribute = message((1, b"value"), (2, message((8, tensor))))
    other = message((1, b"x"), (2, b"Placeholder"))
    return message((1, message((1, b"scope/weights"), (2, b"Const"), (5, attribute))), (1, other))


def test_the_constants_of_a_graph_are_read(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(graphdef(KERNEL.shape))
    tensors = read_tensors("graphdef", tmp_path / "m")
    assert list(tensors) == ["scope/weights"]
    assert np.array_equal(tensors["scope/weights"], KERNEL)


def onnx(*fields: tuple[int, int | bytes], shape: tuple[int, ...] = KERNEL.shape, kind: int = 1) -> bytes:
    """A model with one initializer, whose values ``fields`` hold."""
    sizes = [(1, size) for size in shape]
    initializer = message(*sizes, (2, kind), (8, b"conv_weight"), *fields)
    return message((1, 7), (7, message((2, b"graph"), (5, initializer))))


@with_cases
def test_an_onnx_initializer_is_read_however_it_is_written(tmp_path: Path, kind: int, field: int, stored: str) -> None:
    (tmp_path / "m").write_bytes(onnx((field, KERNEL.astype(stored).tobytes()), kind=kind))
    tensors = read_tensors("onnx", tmp_path / "m")
    assert list(tensors) == ["conv_weight"]
    assert np.array_equal(tensors["conv_weight"], KERNEL)


def test_onnx_shapes_and_axes_are_passed_over(tmp_path: Path) -> None:
    axes = message((1, 2), (2, 7), (8, b"axes"), (9, bytes(16)))
    weights = message((1, 24), (2, 1), (8, b"w"), (9, KERNEL.tobytes()))
    (tmp_path / "m").write_bytes(message((7, message((5, axes), (5, weights)))))
    assert list(read_tensors("onnx", tmp_path / "m")) == ["w"]


def tfjs(tmp_path: Path, **changes: Any) -> Path:
    (tmp_path / "shard.bin").write_bytes(KERNEL.tobytes())
    entry = {"name": "w", "shape": list(KERNEL.shape), "dtype": "float32"} | changes
    path = tmp_path / "model.json"
    manifest = {"paths": [changes.get("path", "shard.bin")], "weights": [entry]}
    path.write_text(json.dumps({"weightsManifest": [manifest]}))
    return path


def test_tfjs_shards_are_read(tmp_path: Path) -> None:
    assert np.array_equal(read_tensors("tfjs", tfjs(tmp_path))["w"], KERNEL)


@with_cases
def test_tfjs_that_reaches_out_or_does_not_fit_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    must_fail(WeightsError, "", read_tensors, "tfjs", tfjs(tmp_path, **changes))


def keras_h5(path: Path) -> Any:
    import h5py

    file = h5py.File(path, "w")
    file.attrs["layer_names"] = [b"conv", b"dense"]
    for layer in ("conv", "dense"):
        file.create_group(layer).attrs["weight_names"] = [f"{layer}/kernel:0".encode()]
    file["conv/conv/kernel:0"] = KERNEL
    return file


@pytest.mark.integration
def test_keras_layers_are_read_in_the_order_of_the_file_without_one_that_counts(tmp_path: Path) -> None:
    with keras_h5(tmp_path / "m.h5") as file:
        file["dense/dense/kernel:0"] = KERNEL[0, 0]
    tensors = read_tensors("keras_h5", tmp_path / "m.h5")
    assert list(tensors) == ["conv/conv/kernel:0", "dense/dense/kernel:0"]
    assert np.array_equal(tensors["conv/conv/kernel:0"], KERNEL)
    with keras_h5(tmp_path / "m.h5") as file:  # a layer of preprocessing
        file["dense"].attrs["weight_names"] = [b"dense/mean:0", b"dense/count:0"]
        file["dense/dense/mean:0"] = KERNEL[0, 0]
        file["dense/dense/count:0"] = np.int64(3)
    assert list(read_tensors("keras_h5", tmp_path / "m.h5")) == ["conv/conv/kernel:0"]


@pytest.mark.integration
def test_a_keras_layer_whose_name_has_a_slash_stays_a_layer_of_its_own(tmp_path: Path) -> None:
    import h5py

    with h5py.File(tmp_path / "m.h5", "w") as file:
        file.attrs["layer_names"] = [b"Conv", b"Conv/BatchNorm"]
        for layer, weight in (("Conv", "Conv/kernel:0"), ("Conv/BatchNorm", "Conv/BatchNorm/gamma:0")):
            file.require_group(layer).attrs["weight_names"] = [weight.encode()]
            file[f"{layer}/{weight}"] = KERNEL
    tensors = read_tensors("keras_h5", tmp_path / "m.h5")
    assert [name.partition("/")[0] for name in tensors] == ["Conv", "Conv.BatchNorm"]


@pytest.mark.integration
def test_a_keras_file_that_links_or_keeps_values_outside_is_refused(tmp_path: Path) -> None:
    import h5py

    with keras_h5(tmp_path / "m.h5") as file:
        file["dense/dense/kernel:0"] = h5py.ExternalLink("/elsewhere.h5", "/secret")
    must_fail(WeightsError, "link out of the file", read_tensors, "keras_h5", tmp_path / "m.h5")
    for link in (h5py.ExternalLink("fifo.h5", "/dense"), h5py.SoftLink("/other")):  # of a whole layer, or of all
        for name in ("dense", "model_weights"):
            with keras_h5(tmp_path / "m.h5") as file:
                if name in file:
                    file.move(name, "other")
                file[name] = link
            must_fail(WeightsError, f"'{name}' is a link out of the file", read_tensors, "keras_h5", tmp_path / "m.h5")
    outside = tmp_path / "outside.bin"
    outside.write_bytes(KERNEL.tobytes())
    with keras_h5(tmp_path / "m.h5") as file:
        file["dense"].create_dataset("dense/kernel:0", (24,), "<f4", external=[(str(outside), 0, KERNEL.nbytes)])
    must_fail(WeightsError, "outside the file", read_tensors, "keras_h5", tmp_path / "m.h5")


@pytest.mark.integration
@needs_models
def test_a_quantized_tflite_is_brought_back_to_the_values_that_the_runtime_uses() -> None:
    tensors = read_tensors("tflite", QUANTIZED)
    runtime = Interpreter(model_path=str(QUANTIZED), experimental_preserve_all_tensors=True)
    runtime.allocate_tensors()
    details = {entry["name"]: entry for entry in runtime.get_tensor_details()}
    kernels = [name for name, values in tensors.items() if values.ndim == 4]
    assert len(kernels) == 28
    for name in kernels:
        scale, zero = details[name]["quantization"]
        expected = (runtime.get_tensor(details[name]["index"]).astype(np.float32) - zero) * np.float32(scale)
        assert np.allclose(tensors[name], expected, rtol=1e-6, atol=0)


@pytest.mark.integration
@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("data", [b"", b"\x00" * 64, b"\xff" * 64, struct.pack("<Q", 2**63) * 8])
def test_what_is_no_such_file_is_a_clear_error(tmp_path: Path, format_name: str, data: bytes) -> None:
    (tmp_path / "m").write_bytes(data)
    must_fail(WeightsError, "", read_tensors, format_name, tmp_path / "m")


def test_an_unknown_format_names_those_that_there_are(tmp_path: Path) -> None:
    must_fail(WeightsError, "caffemodel, checkpoint, graphdef", read_tensors, "onnxx", tmp_path / "m")


def network(layers: Any, image: Any) -> Any:
    """A small classifier whose layers of one class are many, so that their order can be lost."""
    x = image
    for index in range(12):
        x = layers.Conv2D(3, 1, name=f"conv_{12 - index}")(x)
    x = layers.BatchNormalization(name="norm")(x)
    x = layers.SeparableConv2D(4, 3, name="apart")(x)
    x = layers.Dropout(0.5)(layers.GlobalAveragePooling2D()(x))
    return layers.Dense(5, name="logits")(x)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """The network with weights that tell the layers apart, and the folder of its checkpoint."""
    import keras
    from keras import layers

    image = keras.Input((8, 8, 3), batch_size=1)
    built = keras.Model(image, network(layers, layers.RandomFlip()(image)))
    rng = np.random.default_rng(3)
    for variable in built.trainable_variables:
        variable.assign(rng.normal(size=variable.shape))
    folder = tmp_path_factory.mktemp("exported")
    built.export(folder, verbose=False)
    return built, folder / "variables"


@pytest.mark.integration
def test_an_exported_saved_model_fills_the_graph(exported: tuple[Any, Path]) -> None:
    import keras
    from keras import layers

    from advisor.catalog._keras_layers import fill_layers, layers_of

    image = keras.Input((8, 8, 3), batch_size=1)
    filled = keras.Model(image, network(layers, image))  # flat and with other weights
    fill_layers(
        filled, map_weights("keras", layers_of(filled), read_tensors("checkpoint", exported[1] / "variables.index"))
    )
    photo = np.random.default_rng(5).normal(size=(1, 8, 8, 3)).astype(np.float32)
    one, other = (np.asarray(model(photo, training=False)) for model in (filled, exported[0]))
    assert np.allclose(one, other, rtol=1e-4, atol=1e-3)


@pytest.mark.integration
def test_checkpoints_of_plain_names_are_read_and_those_of_the_first_form_are_one_file(tmp_path: Path) -> None:
    from tensorflow import raw_ops

    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    names = ["MobilenetV1/Conv2d_0/weights", "global_step"]
    file, tensors = str(tmp_path / "model.ckpt"), [values, np.int64(7)]
    raw_ops.SaveV2(prefix=file, tensor_names=names, shape_and_slices=["", ""], tensors=tensors)
    raw_ops.Save(filename=str(tmp_path / "first.ckpt"), tensor_names=names[:1], data=[values])
    for file in ("model.ckpt.index", "first.ckpt"):
        tensors = read_tensors("checkpoint", tmp_path / file)
        assert list(tensors) == names[:1]
        assert np.array_equal(tensors[names[0]], values)


@pytest.mark.integration
@pytest.mark.parametrize("damaged", ["variables.index", "variables.data-00000-of-00001"])
def test_a_cut_off_checkpoint_is_a_clear_error(tmp_path: Path, exported: tuple[Any, Path], damaged: str) -> None:
    folder = shutil.copytree(exported[1], tmp_path / "m")
    (folder / damaged).write_bytes((folder / damaged).read_bytes()[:-100])
    with pytest.raises(WeightsError, match=r"variables\.index cannot be read as checkpoint"):
        read_tensors("checkpoint", folder / "variables.index")


def safetensors(*tensors: tuple[str, str, list[int], bytes], header: bytes = b"") -> bytes:
    """A file with these tensors: name, type, shape, content."""
    entries, place = {"__metadata__": {"format": "pt"}}, 0
    for name, kind, shape, content in tensors:
        entries[name] = {"dtype": kind, "shape": shape, "data_offsets": [place, place + len(content)]}  # type: ignore[dict-item]
        place += len(content)
    said = header or json.dumps(entries).encode()
    return struct.pack("<Q", len(said)) + said + b"".join(content for *_, content in tensors)


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("F32", np.array([1.5, -2.0], "<f4").tobytes()),
        ("F16", np.array([1.5, -2.0], "<f2").tobytes()),
        ("F64", np.array([1.5, -2.0], "<f8").tobytes()),
        ("BF16", (np.array([1.5, -2.0], "<f4").view("<u4") >> 16).astype("<u2").tobytes()),
    ],
)
def test_tensors_of_safetensors_are_read_in_every_width(tmp_path: Path, kind: str, content: bytes) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(safetensors(("other", "I64", [1], bytes(8)), ("a.weight", kind, [2, 1], content)))
    found = read_tensors("safetensors", path)
    assert list(found) == ["other", "a.weight"]
    assert found["a.weight"].tolist() == [[1.5], [-2.0]]
    assert found["a.weight"].dtype == (np.float64 if kind == "F64" else np.float32)


@pytest.mark.parametrize(
    ("kind", "reason", "content"),
    [
        ("graphdef", "24 values", graphdef((2, 3, 2, 3))),
        ("onnx", "onnx", onnx((9, KERNEL.tobytes()[:-4]))),
        ("onnx", "onnx", onnx((9, KERNEL.tobytes()), shape=(2**40, 2**40))),
        ("onnx", "onnx", onnx((9, KERNEL.tobytes()), shape=(2**64 - 1, 2**64 - 24))),
        ("onnx", "onnx", onnx((13, message((1, b"location"), (2, b"/etc/passwd"))), (14, 1))),
        ("onnx", "onnx", onnx((9, KERNEL.tobytes()))[:-7]),
        *(
            ("safetensors", "cannot be read as safetensors", content)
            for content in (
                b"",
                struct.pack("<Q", 10**15) + b"{}",
                safetensors(header=b"[]"),
                safetensors(("a", "F32", [3], bytes(8))),
                safetensors(("a", "F8", [2], bytes(8))),
                safetensors(("a", "F32", [-2], bytes(8))),
                safetensors(header=b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}'),
                safetensors(header=b'{"a": {"dtype": "F32", "shape": [1000000000000], "data_offsets": [0, 0]}}'),
            )
        ),
    ],
)
def test_a_file_that_is_wrong_or_reaches_out_is_refused(tmp_path: Path, kind: str, reason: str, content: bytes) -> None:
    (tmp_path / "m").write_bytes(content)
    must_fail(WeightsError, reason, read_tensors, kind, tmp_path / "m")
