"""Write a Core ML package of a float ``.tflite`` classifier; for child processes, as coremltools is loaded."""

from collections.abc import Sequence
from pathlib import Path

from advisor.integrations.coreml import without_frameworks

without_frameworks()

import coremltools as ct  # noqa: E402
from coremltools.converters.mil import Builder  # noqa: E402

from advisor.integrations.coreml.operators import Network  # noqa: E402
from advisor.tflite.levels import to_float32  # noqa: E402
from advisor.tflite.model import read  # noqa: E402

NOT_RUN = "Not run here: Core ML runs on Apple devices only. Check it there with the test vectors of the bundle."
OLDEST = ct.target.iOS16
_DATE = "com.github.apple.coremltools.conversion_date"


def write(data: bytes, labels: Sequence[str], mean: float, std: float, about: str, licence: str, folder: Path) -> None:
    """Write the package.

    Raises UsageError: an operator is not translated.

    Args:
        data: a ``.tflite`` of one image (1, S, S, 3), float32, that gives (1, classes).
        labels: one for each class.
        mean: subtracted from RGB values 0..255.
        std: what the difference is divided by.
        about: short description.
        licence: its name.
        folder: the package to make.
    """
    model = read(to_float32(data))
    side = model.inputs[0].shape[1]
    shape = (1, 3, side, side)

    @Builder.program(input_specs=[Builder.TensorSpec(shape=shape)], opset_version=OLDEST)  # type: ignore[untyped-decorator,unused-ignore]
    def program(image: object) -> object:
        return Builder.identity(x=Network(model, image).run(), name="probabilities")

    image = ct.ImageType(name="image", shape=shape, scale=1 / std, bias=[-mean / std] * 3, color_layout="RGB")
    made = ct.convert(
        program,
        source="milinternal",
        convert_to="mlprogram",
        inputs=[image],
        classifier_config=ct.ClassifierConfig(list(labels)),
        minimum_deployment_target=OLDEST,
        compute_precision=ct.precision.FLOAT16,
        skip_model_load=True,
    )
    made.short_description = f"{about}. {NOT_RUN}"
    made.license = licence
    made.input_description["image"] = f"RGB image, {side} x {side}"
    made.save(str(folder))
    _settle(folder / "Data" / "com.apple.CoreML" / "model.mlmodel")


def _settle(specification: Path) -> None:
    """Take the date out, so that the same run gives the same bytes."""
    found = ct.proto.Model_pb2.Model()
    found.ParseFromString(specification.read_bytes())
    found.description.metadata.userDefined.pop(_DATE, None)
    specification.write_bytes(found.SerializeToString(deterministic=True))
