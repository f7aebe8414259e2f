"""The code for iOS compiles beside declarations of what it calls, and answers as the code for Python does."""

import json
import re
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from advisor.reporting import ShippedModel, Shipping
from advisor.tasks import TASKS
from advisor.tasks.classification import CLASSIFICATION
from advisor.tasks.tagging import TAGGING
from tests.makers.swift import compile_swift, run_swift
from tests.reporting.bundle.test_model import API, PARSED, THRESHOLDS, written
from tests.tables import read_table

OUTPUTS = read_table(__file__, "texts.yaml")["outputs"]
"""By class of app code: the shapes of what its model answers to an image."""
LABELS = ("glass", "paper", "e\u0301", "\u0301", '"a, b" \\n')
SIZE, MEAN, STD = 4, np.float32(123.7), np.float32(58.4)
MODEL = replace(PARSED, labels=LABELS, size=SIZE, mean=float(MEAN), std=float(STD))
PROGRAMS = [(CLASSIFICATION.shipping(), replace(MODEL, thresholds=kind)) for kind in THRESHOLDS]
PROGRAMS += [(TAGGING.shipping(), PROGRAMS[1][1]), *((task.shipping(), MODEL) for task in TASKS)]
"""Of every task; of classifiers and taggers with each kind of threshold that they have."""
REFUSED = "it stores 12 bits or fewer in 16, or floats; save it with 8 bits"


def draw_outputs(draw: np.random.Generator, name: str) -> list[Any]:
    """Outputs of which some are equal, some outside of 0 to 1, and some all low."""
    scale = draw.choice([8, 32])
    outputs = [np.float32(draw.integers(-1, 10, shape) / scale) for shape in OUTPUTS[name]]
    if name == "Detector":
        outputs[1:] = [np.float32(draw.integers(0, len(LABELS), 6)), outputs[2], np.float32(5)]
    return outputs


def answers_in_python(folder: Path, shipping: Shipping, model: ShippedModel, runs: list[list[Any]]) -> dict[str, Any]:
    """What each function of the code for Python answers if the model gives these outputs."""
    (folder / "program.py").write_text(written(shipping, "python", "cpu", model), encoding="utf-8")
    code, answers = runpy.run_path(str(folder / "program.py")), dict[str, Any]()
    program = object.__new__(code[Path(shipping.snippets["ios"]).stem])
    program.labels = list(LABELS)
    functions = {"": program, **({" shows": program.may_show} if model.thresholds.recall else {})}
    for function, call in functions.items():
        answers[function] = []
        for outputs in runs:
            program._run = lambda _, outputs=outputs: outputs
            answer = call(Image.new("RGB", (2 * SIZE, SIZE)))
            # Swift returns what a program for Python prints.
            heat = "AnomalyDetector" in code
            answers[function].append([answer, answer.max(), answer.max() >= code["LEAST"]] if heat else answer)
        answers[function] += [REFUSED, REFUSED]
    return json.loads(json.dumps(answers, default=lambda value: value.tolist()))


def code_for_ios() -> dict[str, str]:
    """The code of each program for each accelerator, by file."""
    files = {"main.swift": Path(__file__).with_name("ios_main.swift").read_text(encoding="utf-8")}
    for number, (shipping, model) in enumerate(PROGRAMS):
        name = Path(shipping.snippets["ios"]).stem
        for accelerator in ("cpu", "gpu"):
            source = written(shipping, "ios", accelerator, model)
            # The files are one module, in which each class needs a name of its own.
            named = re.sub(rf"\b{name}(Error)?\b", rf"{name}{number}{accelerator}\1", source)
            files[f"{number}{accelerator}.swift"] = named
    return files


@pytest.mark.integration
def test_code_for_ios_compiles_and_answers_as_in_python(swift_runner: list[str], tmp_path: Path) -> None:
    draw, outputs, expected = np.random.default_rng(152), [], {}  # 152: some scores are just each threshold
    pixels, opaque = draw.integers(0, 256, (6, SIZE, 2 * SIZE, 3)), draw.integers(0, 2, (6, SIZE, 2 * SIZE, 1))
    images = [{"bits": 8, "rgba": image.ravel().tolist()} for image in np.concatenate([pixels, 255 * opaque], axis=-1)]
    images += [{"bits": 16, "rgba": [15, 0, 7, 255] * 32}, {"bits": 16, "info": 1 << 8, "rgba": [99] * 128}]
    for number, (shipping, model) in enumerate(PROGRAMS):
        name = Path(shipping.snippets["ios"]).stem
        runs = [draw_outputs(draw, name) for _ in pixels]
        outputs.append([[{"shape": (1, *one.shape), "values": one.ravel().tolist()} for one in run] for run in runs])
        answers = answers_in_python(tmp_path, shipping, model, runs)
        expected |= {f"{name}{number}{function}": answer for function, answer in answers.items()}
    modules = dict(part.split("\n", 1) for part in API["ios"].split("//// ")[1:])
    files = {"model.tflite": json.dumps(outputs), "labels.txt": "".join(f"{label}\n" for label in LABELS)}
    files |= {f"{module}.swift": source for module, source in modules.items()} | code_for_ios()
    names, shape = [f"{number}.json" for number in range(len(images))], {"width": 2 * SIZE, "height": SIZE, "info": 0}
    files |= {name: json.dumps({**shape, **image}) for name, image in zip(names, images, strict=True)}
    for file, content in files.items():
        (tmp_path / file).write_text(content, encoding="utf-8")
    compile_swift(swift_runner, tmp_path, list(code_for_ios()), tuple(modules))
    assert json.loads(run_swift(swift_runner, tmp_path, "./program", *names)) == expected
    inputs = np.fromfile(tmp_path / "model.tflite.inputs", np.float32).reshape(-1, *pixels[:, :, ::2].shape)
    on_white = np.where(opaque, pixels, 255)[:, :, ::2].astype(np.float32)
    np.testing.assert_array_equal(inputs, np.broadcast_to((on_white - MEAN) / STD, inputs.shape))
