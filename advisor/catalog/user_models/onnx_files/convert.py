"""Convert a checked ONNX graph with onnx2tf's own writer of ``.tflite`` files, which needs no TensorFlow."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.catalog.user_models.onnx_files.graph import Image
from advisor.store.packages import Packages

if TYPE_CHECKING:
    from onnx import ModelProto

VERSION = "2.6.9"
PACKAGES = Packages(
    "onnx2tf",
    (
        f"onnx2tf=={VERSION} --hash=sha256:98515924d59b22d530eb2e958fe660c5b2beef1863ef20b073ba385e78667be4",
        "sng4onnx==2.0.1 --hash=sha256:3bcbdaf79c8c4f107a340802f9562620ac5b3c83b3b8e8d08a553276d754168f",
    ),
    # It pins other versions of packages that we have, and Python 3.12, which the part that is used here does not need.
    ("--no-deps", "--ignore-requires-python"),
)


def converted(model: ModelProto, image: Image) -> bytes:
    """Return the ``.tflite`` of a prepared graph, its input in NHWC."""
    import onnx

    depth = sys.getrecursionlimit()
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder) / "model.onnx"
        onnx.save(model, given)
        try:
            import onnx2tf

            onnx2tf.convert(
                input_onnx_file_path=str(given),
                output_folder_path=folder,
                not_use_onnxsim=True,
                keep_nwc_or_nhwc_or_ndhwc_input_names=None if image.channels_first else [image.name],
                non_verbose=True,
            )
        finally:
            sys.setrecursionlimit(depth)  # onnx2tf lifts it, and deep nesting would then end the process
        return (Path(folder) / "model_float32.tflite").read_bytes()
