"""Score a ``.tflite`` file on a part of a run's images as an app would do it, with nothing of advisor.

    python benchmarks/score_file.py MODEL.tflite SPLIT.json FOLDER [--part holdout]

It needs LiteRT, NumPy, Pillow and the schema of MediaPipe. Normalisation and labels come from the metadata of the file.
``SPLIT.json`` is that of the run, and ``FOLDER`` its images. It prints a JSON object: ``images``, ``right``, and
``answers``, the label of each image in order.
"""

import argparse
import importlib.util
import io
import json
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from ai_edge_litert import schema_py_generated as litert
from ai_edge_litert.interpreter import Interpreter
from PIL import Image, ImageOps


class Description(NamedTuple):
    """What the metadata of a file says: how to normalise RGB values 0..255, and the labels in output order."""

    mean: Any
    std: Any
    labels: list[str]


def metadata_schema() -> ModuleType:
    """Load the schema of TensorFlow Lite's metadata from MediaPipe, without the rest of that package."""
    package = importlib.util.find_spec("mediapipe")
    assert package is not None
    assert package.submodule_search_locations
    path = Path(package.submodule_search_locations[0]) / "tasks" / "metadata" / "metadata_schema_py_generated.py"
    spec = importlib.util.spec_from_file_location("metadata_schema", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def describe(content: bytes) -> Description:
    """Read normalisation and labels from the metadata of a ``.tflite`` file."""
    schema, model = metadata_schema(), litert.Model.GetRootAs(content)
    entries = [model.Metadata(place) for place in range(model.MetadataLength())]
    entry = next(each for each in entries if each.Name() == b"TFLITE_METADATA")
    graph = schema.ModelMetadata.GetRootAs(model.Buffers(entry.Buffer()).DataAsNumpy().tobytes()).SubgraphMetadata(0)
    image, output = graph.InputTensorMetadata(0), graph.OutputTensorMetadata(0)
    units = [image.ProcessUnits(place) for place in range(image.ProcessUnitsLength())]
    unit = next(each for each in units if each.OptionsType() == schema.ProcessUnitOptions.NormalizationOptions)
    normalization = schema.NormalizationOptions()
    normalization.Init(unit.Options().Bytes, unit.Options().Pos)
    with zipfile.ZipFile(io.BytesIO(content)) as files:
        labels = files.read(output.AssociatedFiles(0).Name().decode()).decode().split("\n")[:-1]
    return Description(normalization.MeanAsNumpy(), normalization.StdAsNumpy(), labels)


def pixels_of(path: Path, side: int) -> Any:
    """Return an image as uint8 RGB (side, side, 3), as ``classify.py`` of a bundle reads it."""
    with Image.open(path) as image:
        image.draft(None, (2 * side, 2 * side))
        small = rgb(image).resize((side, side), Image.Resampling.BILINEAR)
        small.info = dict(image.info)
        return np.asarray(ImageOps.exif_transpose(small))


def rgb(image: Image.Image) -> Image.Image:
    """Return an image in RGB: 16-bit grey is scaled to 8 bits, transparent pixels become white."""
    if image.mode.startswith("I"):
        steps = np.rint(np.asarray(image).astype(np.float32) / 257)
        image = Image.fromarray(np.clip(steps, 0, 255).astype(np.uint8))
    elif image.has_transparency_data:
        layer = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
    return image.convert("RGB")


def answers(model: Path, paths: list[Path], description: Description | None = None) -> list[str]:
    """Return the most probable label of each image; ``description`` is None for that of the file's metadata."""
    description = description or describe(model.read_bytes())
    interpreter = Interpreter(model_path=str(model), num_threads=1)
    interpreter.allocate_tensors()
    (source,), (sink,) = interpreter.get_input_details(), interpreter.get_output_details()
    found = []
    for path in paths:
        pixels = pixels_of(path, source["shape"][1]).astype(np.float32)
        values = (pixels - np.float32(description.mean)) / np.float32(description.std)
        if source["dtype"] is not np.float32:
            scale, zero = source["quantization"]
            ends = np.iinfo(source["dtype"])
            values = np.clip(np.round(values / scale + zero), ends.min, ends.max).astype(source["dtype"])
        interpreter.set_tensor(source["index"], values[None])
        interpreter.invoke()
        found.append(description.labels[int(interpreter.get_tensor(sink["index"])[0].argmax())])
    return found


def main() -> None:
    """Score the file of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("split", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--part", default="holdout")
    options = parser.parse_args()
    rows = json.loads(options.split.read_text(encoding="utf-8"))[options.part]
    found = answers(options.model, [options.folder / row["path"] for row in rows])
    right = sum(label == row["class"] for label, row in zip(found, rows, strict=True))
    print(json.dumps({"images": len(rows), "right": right, "answers": found}))


if __name__ == "__main__":
    main()
