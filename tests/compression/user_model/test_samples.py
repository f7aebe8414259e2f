"""Files of any inputs: forms are calibrated and compared on the user's samples."""

import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advisor.core import UsageError
from advisor.engine import Compression, compress, prepare_compression as ask
from advisor.engine._compress.samples import Input, Samples, compare_on_samples, read_samples
from advisor.tflite import read
from tests.builders import must_fail, present, write_file
from tests.compression.user_model import networks
from tests.tables import with_cases
from tests.tflite.graphs import edited, foreign_detector

IMAGE, POSE = (16, 16, 3), (6,)

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("here")]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_file(tmp_path / "net.tflite", networks.two_inputs())


def compressed(model: Path, samples: Path, *recipes: str) -> Compression:
    return compress(ask(model, recipes, samples=samples, to=model.parent / "forms"), lambda _: None, latency=False)


def refused(model: Path, samples: Path, to: Path | None = None, **options: Any) -> UsageError:
    folder = to or model.parent / "forms"
    raised = must_fail(UsageError, "", ask, model, ["int8"], samples=samples, to=folder, **options)
    assert not folder.exists()
    return raised


def test_each_form_of_a_model_with_two_inputs_has_the_ratio_of_each_output(model: Path, tmp_path: Path) -> None:
    given = networks.samples(tmp_path / "s.npz", 40, image=IMAGE, pose=POSE)
    found = compressed(model, given, "float16", "int8", "int8_float_io", "mixed_int8")
    ratios = {form.recipe: form.agreement.snr_db for form in found.forms if form.agreement}
    by_output = found.forms[2].agreement.by_output if found.forms[2].agreement else {}
    assert ratios["float32"] is None
    assert ratios["float16"] > 50 > ratios["int8"] > 20
    assert set(by_output) == {"angle", "place"}
    assert min(filter(None, by_output.values())) == ratios["int8"]
    assert found.forms[4].reason == "mixed_int8 learns from images of one class each, and --samples has no classes"
    assert (found.task, found.metric) == ("any", "")
    assert found.metric == ""
    assert (found.calibration, found.scored) == (
        f"20 samples of {given}",
        f"20 samples of {given} that were not calibrated on",
    )


def test_a_map_of_scores_and_an_input_of_five_channels_are_taken(tmp_path: Path) -> None:
    (tmp_path / "net.tflite").write_bytes(networks.segmentation())
    given = networks.samples(tmp_path / "s.npz", image=(16, 16, 5))
    found = compressed(tmp_path / "net.tflite", given, "int8", "rounded")
    assert [form.status for form in found.forms] == ["ok"] * 3
    assert all(form.agreement and form.agreement.share.value == 1 for form in found.forms)


def test_inputs_of_whole_numbers_stay_whole(tmp_path: Path) -> None:
    (tmp_path / "net.tflite").write_bytes(networks.tokens())
    np.savez(tmp_path / "s.npz", tokens=np.random.default_rng(0).integers(0, 50, (24, 12)))
    found = compressed(tmp_path / "net.tflite", tmp_path / "s.npz", "int8", "int8_float_io")
    assert [form.status for form in found.forms] == ["ok"] * 3
    assert read(Path(found.forms[2].path)).inputs[0].dtype == "int32"


def test_several_graphs_are_compressed_and_those_beside_the_main_one_stay_float_in_int8(tmp_path: Path) -> None:
    (tmp_path / "net.tflite").write_bytes(networks.branching())
    given = networks.samples(tmp_path / "s.npz", 240, vector=(16,))
    found = compressed(tmp_path / "net.tflite", given, "float16", "dynamic_int8", "weight_int8", "int8", "rounded")
    assert [form.reason for form in found.forms] == [""] * 6
    ratios = [form.agreement.snr_db for form in found.forms if form.agreement]
    assert all(ratio is None or ratio > 20 for ratio in ratios)
    kinds = [
        {
            tensor.dtype
            for graph in read(Path(form.path)).subgraphs[1:]
            for tensor in graph.tensors
            if tensor.is_constant
        }
        for form in found.forms
    ]
    both, plain = {"int8", "float32"}, {"float32"}
    assert kinds == [plain, {"float16"}, both, both, plain, plain]
    assert read(Path(found.forms[4].path)).inputs[0].dtype == "int8"
    assert found.forms[4].notes_text == "2 operators left in float: FULLY_CONNECTED, FULLY_CONNECTED"


def test_a_quantized_file_is_compressed_if_it_is_asked_for(model: Path, tmp_path: Path) -> None:
    given = networks.samples(tmp_path / "s.npz", 40, image=IMAGE, pose=POSE)
    whole = model.read_bytes()
    model.write_bytes(Path(compressed(model, given, "int8").forms[1].path).read_bytes())
    refusal = refused(model, given, tmp_path / "other")
    assert "quantized already" in refusal.message
    assert refusal.hint == "start from the float file that it was made from; without it, add --requantize"
    question = ask(model, ["int8", "float16"], samples=given, to=tmp_path / "other", requantize=True)
    found = compress(question, lambda _: None, latency=False)
    assert all(form.agreement and form.agreement.share.value > 0.9 for form in found.forms)
    (tmp_path / "whole.tflite").write_bytes(whole)
    inputs = (Input("image", (1, *IMAGE), "float32"), Input("pose", (1, *POSE), "float32"))
    alike = compare_on_samples(question.model, tmp_path / "whole.tflite", Samples(given, inputs, tuple(range(10))))
    assert present(alike.snr_db) > 30


def test_a_file_of_an_old_converter_gives_the_same_int8_file(model: Path, tmp_path: Path) -> None:
    def old(tables: Any) -> None:
        for code in tables.operatorCodes:
            code.deprecatedBuiltinCode, code.builtinCode = max(code.builtinCode, code.deprecatedBuiltinCode), 0

    given = networks.samples(tmp_path / "s.npz", image=IMAGE, pose=POSE)
    new = Path(compressed(model, given, "int8").forms[1].path).read_bytes()
    (tmp_path / "old").mkdir()
    former = write_file(tmp_path / "old" / "net.tflite", edited(model.read_bytes(), old))
    form = compressed(former, given, "int8").forms[1]
    assert [tensor.dtype for tensor in read(Path(form.path)).tensors] == [tensor.dtype for tensor in read(new).tensors]


def test_agreement_is_the_share_of_samples_whose_outputs_are_all_close(model: Path, tmp_path: Path) -> None:
    given = networks.samples(tmp_path / "s.npz", 10, image=IMAGE, pose=POSE)
    inputs = (Input("image", (1, *IMAGE), "float32"), Input("pose", (1, *POSE), "float32"))
    samples, other = Samples(given, inputs, tuple(range(10))), tmp_path / "other.tflite"
    same = compare_on_samples(model, model, samples)
    assert (same.images, same.share.value, same.snr_db) == (10, 1.0, None)
    other.write_bytes(networks.two_inputs(seed=1))
    unlike = compare_on_samples(other, model, samples)
    assert unlike.share.value == 0
    assert present(unlike.snr_db) < 10


def test_few_samples_serve_for_both_and_may_be_doubles_with_their_batch(model: Path, tmp_path: Path) -> None:
    given = networks.samples(tmp_path / "s.npz", 12, image=IMAGE, pose=POSE)
    parts = read_samples(given, read(model), 0)
    assert parts.calibration.rows == parts.scored.rows == tuple(range(12))
    assert parts.scored_source.endswith("12 samples of " + f"{given} that were calibrated on, too")
    np.savez(tmp_path / "s.npz", image=np.zeros((20, 1, *IMAGE)), pose=np.zeros((20, *POSE), np.float16))
    image, pose = read_samples(tmp_path / "s.npz", read(model), 0).calibration.read()
    assert (image.shape, pose.shape) == ((10, 1, *IMAGE), (10, 1, *POSE))
    assert image.dtype == pose.dtype == np.float32


def test_one_input_needs_no_name_and_one_without_an_array_names_the_nearest(model: Path, tmp_path: Path) -> None:
    given = networks.samples(tmp_path / "s.npz", imgae=IMAGE, pose=POSE)
    assert (
        refused(model, given).message
        == "--samples: s.npz has no array 'image' (did you mean 'imgae'?); its arrays: 'imgae', 'pose'"
    )
    np.savez(tmp_path / "one.npz", np.zeros((20, 16, 16, 5), np.float32))
    parts = read_samples(tmp_path / "one.npz", read(networks.segmentation()), 0)
    assert parts.scored.read()[0].shape == (10, 1, 16, 16, 5)
    must_fail(UsageError, "has no array", read_samples, tmp_path / "one.npz", read(model.read_bytes()), 0)


@with_cases
def test_arrays_that_do_not_fit_are_refused_by_name(
    model: Path, tmp_path: Path, shape: list[int], dtype: str, value: float, message: str
) -> None:
    np.savez(tmp_path / "s.npz", image=np.zeros((20, *IMAGE), np.float32), pose=np.full(shape, value, dtype))
    error = refused(model, tmp_path / "s.npz")
    with pytest.raises(UsageError, match=message):
        raise error
    assert error.hint


def test_too_few_samples_and_a_seed_beyond_the_libraries_are_refused(model: Path, tmp_path: Path) -> None:
    for count in (0, 9):
        given = networks.samples(tmp_path / "s.npz", count, image=IMAGE, pose=POSE)
        assert refused(model, given).message == f"--samples: {count} samples in s.npz, and 10 are needed"
    given = networks.samples(tmp_path / "s.npz", 20, image=IMAGE, pose=POSE)
    for seed in (-1, 10**20):
        assert refused(model, given, seed=seed).message.startswith(f"--seed: '{seed}' is not a whole number from 0")


def test_a_file_that_holds_no_arrays_or_states_a_shape_of_10_to_11_is_refused(model: Path, tmp_path: Path) -> None:
    for content in (b"", b"PK\x03\x04 not a zip", b"\x93NUMPY\x01\x00"):
        (tmp_path / "s.npz").write_bytes(content)
        assert "is not an .npz file of arrays" in refused(model, tmp_path / "s.npz").message
    assert "there is no file" in refused(model, tmp_path / "none.npz").message
    header = BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (10**11,)})
    with zipfile.ZipFile(tmp_path / "s.npz", "w") as archive:
        archive.writestr("image.npy", header.getvalue())
    assert "is not an .npz file of arrays" in refused(model, tmp_path / "s.npz").message


@pytest.mark.parametrize(
    ("options", "named"), [({"data": Path("photos")}, "--data"), ({"mean": (0.0,), "std": (1.0,)}, "--mean")]
)
def test_samples_stand_alone(model: Path, tmp_path: Path, options: dict[str, Any], named: str) -> None:
    given = networks.samples(tmp_path / "s.npz", image=IMAGE, pose=POSE)
    assert refused(model, given, **options).message == f"--samples and {named} cannot be combined"


def test_without_samples_they_are_what_is_missing(model: Path) -> None:
    with pytest.raises(UsageError, match=r"takes 1x16x16x3, 1x6, not one square RGB image") as raised:
        ask(model, ["int8"], to=model.parent / "forms")
    assert raised.value.hint.endswith("give samples of its inputs with --samples inputs.npz")


def test_a_detector_needs_images(tmp_path: Path) -> None:
    (tmp_path / "net.tflite").write_bytes(foreign_detector())
    error = refused(tmp_path / "net.tflite", networks.samples(tmp_path / "s.npz", image=IMAGE))
    assert "is a detector, and boxes have no SNR" in error.message
