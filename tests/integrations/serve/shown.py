"""Runs that the pages show, and photographs for them."""

import hashlib
import io
from dataclasses import replace
from pathlib import Path

from PIL import Image

from advisor.core import BoxFacts, ClassBoxes, ImageAnswers
from advisor.reporting import RunView, write_all
from advisor.store import RunFolder
from advisor.tasks._counting import COUNTING
from advisor.tasks.detection import DETECTION
from advisor.tflite import Metadata, cut_postprocess
from tests.builders import evaluation
from tests.detectors import COLOURS as COLOUR_NAMES, SIDE as CELLS_SIDE, detector_file, marker_file, mask_content
from tests.measurement import small_models
from tests.run_folders import write_run

ENDED = {"configurations": 3, "stopped": {"why": "complete", "text": "every configuration was evaluated"}}

COLOURS = Metadata("colours", ("red", "green", "<b>blue"), (127.5,), (127.5,))

SIDE = 8

FORMS = ("float32", "int8")


def finished(runs: Path, task: str, floats: bytes, integers: bytes) -> RunFolder:
    """Write a finished run with two files that find objects, and its answer."""
    run = write_finders(runs, task, floats, integers)
    write_all(RunView.load(run), run.path)
    return run


def write_finders(runs: Path, task: str, floats: bytes, integers: bytes) -> RunFolder:
    """Write a finished run with two files that find objects."""
    run = write_run(runs, [], manifest=ENDED, name=task, request={"task": task, "data": "boxes"})
    by_class = {name: ClassBoxes(8, 6, 0.83, 0.62, 0.25) for name in COLOUR_NAMES}
    judged = ImageAnswers(dict.fromkeys(COLOUR_NAMES, 0.9), boxes=BoxFacts(0.6, None, by_class))
    described = Metadata.read(floats)
    assert described is not None
    for form, content in zip(FORMS, (floats, integers), strict=True):
        keep_file(run, form, described.write_into(content), judged)
    return run


def finder_files(task: str, folder: Path) -> tuple[bytes, bytes]:
    """Return files that find coloured cells, in float32 and int8: their boxes, their centres, or their pixels."""
    path = folder / "cells.tflite"
    if task == DETECTION.name:
        detector = detector_file(path, order=(0, 1, 2, 3)).read_bytes()
        raw, process = cut_postprocess(detector)
        return detector, process.put_back(small_models.quantized(raw, folder, CELLS_SIDE))
    floats = marker_file(path).read_bytes() if task == COUNTING.name else mask_content()
    return floats, small_models.quantized(floats, folder, CELLS_SIDE)


def keep_file(run: RunFolder, form: str, content: bytes, judged: ImageAnswers | None = None) -> None:
    name = f"artifacts/colours-{form}.tflite"
    (run.path / name).write_bytes(content)
    made = evaluation("colours", form, latency=1.0 if form == "int8" else 2.0)
    made = replace(made, artefact=name, artefact_sha256=hashlib.sha256(content).hexdigest())
    run.append(replace(made, answers=judged or made.answers))


def photograph(colour: tuple[int, int, int] = (250, 10, 10)) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (64, 48), colour).save(file, "PNG")
    return file.getvalue()


def two_cells() -> bytes:
    """Return a dark PNG, twice as wide as high, with a red cell at the top left and a blue one in the lower half."""
    file, image = io.BytesIO(), Image.new("RGB", (128, 64), (20, 20, 20))
    image.paste((255, 0, 0), (0, 0, 32, 16))
    image.paste((0, 0, 255), (64, 32, 96, 48))
    image.save(file, "PNG")
    return file.getvalue()
