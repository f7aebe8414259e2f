"""Damaged texts and files of every format are read, or refused in words: fuzzing from real documents.

Hypothesis changes a few pieces of a real document at a time, or bytes of a file. ``make test`` tries ``FEW`` changes of
each format, and ``make test-slow`` as many as the environment variable ``FUZZ_CASES`` says: 10,000 if it is not set.
Ten thousand changes take 10 to 60 seconds of a core for each of the 28 formats, and 10 minutes for all of them;
100,000 take two hours.
"""

import json
import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from PIL import Image

from advisor.catalog._catalogue import read_catalogue_file
from advisor.core import AdvisorError, Limits, StageError, UsageError, units
from advisor.core._preferences import parse_preference
from advisor.datasets import load
from advisor.datasets._boxes import list_boxes
from advisor.datasets._manifests import list_manifest
from advisor.devices import Timing, find_shipped_profiles, read_document, read_features, timings_of_agent
from advisor.devices._connections.benchmark_model import parse_output
from advisor.devices._profiles import read_profile
from advisor.devices._profiles.cores import read_cores
from advisor.devices._profiles.measurements import Kernel, read_kernels, read_measurements, write_kernels
from advisor.engine import LoadedRun, resolve
from advisor.engine._question.options import read_request_file
from advisor.isolation import Finished
from advisor.measurement import Delegation, measure
from advisor.measurement._accelerators import read_accelerators
from advisor.measurement._delegation import execution_order
from advisor.measurement._operators.matching import list_nodes, match_events
from advisor.tflite import Metadata, Work, activation_arena_bytes, count, read, select_output, to_float16, to_float_io
from benchmarks.hostile_surfaces.damages import BROKEN, WHOLE, WRONG
from tests.builders import CHARACTERS
from tests.datasets.boxes.writers import WRITERS, photos
from tests.devices.test_adb import PRINTED
from tests.devices.test_connections import BLOCK, DOCUMENT, SERIES
from tests.measurement import small_models
from tests.run_folders import images, write_run

pytestmark = pytest.mark.integration

FEW = 20
MANY = int(os.environ.get("FUZZ_CASES", "10000"))
COUNTS = pytest.mark.parametrize(
    "count",
    [
        pytest.param(FEW, id="few"),
        pytest.param(MANY, id="many", marks=[pytest.mark.slow, pytest.mark.timeout(300 + MANY // 10)]),
    ],
)

Drawn = TypeVar("Drawn")
PIECES = re.compile(r"\w+|\s+|.", re.DOTALL)

HOSTILE = (
    *(json.dumps(value) for value in WRONG), *(text for text in BROKEN if len(text) < 10_000),
    ":", ";", "\n", "\n  ", "}", "]", "&a", "*a", "...", "#", "|", ">", "1e308", "1e-320", "0x1f", "~", "yes",
    "2026-13-45", "\U0001f4a5", "__class__", "$(touch x)", "%s%n",
)  # fmt: skip
"""What takes the place of pieces."""

BOXED = {
    "voc": "Annotations/000.xml", "coco": "annotations/instances.json", "yolo": "labels/000.txt", "table": "set.csv",
}  # fmt: skip
"""The file that is changed in each format of boxes."""
RUN_FILES = ("manifest.json", "evaluations.jsonl", "request.yaml", "dataset.json", "inputs.json")
FORMATS = (
    "profile", "cores", "measurements", "kernels", "catalogue", "request", "images", *map("boxes: {}".format, BOXED),
    *map("run folder: {}".format, RUN_FILES),
)  # fmt: skip
TEXTS: dict[str, Callable[[str], object]] = {
    "latency": lambda text: units.parse_milliseconds(text, "--budget"),
    "size": lambda text: units.size_bytes(text, "--size-budget"),
    "preference": parse_preference,
    "licences": Limits.parse_licences,
}
WRITTEN = (
    st.text(CHARACTERS, max_size=30)
    | st.sampled_from(HOSTILE)
    | st.from_regex(r"[+-]?[0-9.eE]{1,8} ?[a-zA-Z%:=,]{0,12}")
)
AGENT = {**DOCUMENT, "series": [{**SERIES, "blocks": [BLOCK] * 5}]}
ANSWERS: dict[str, tuple[str, Callable[[str], Sequence[Timing]]]] = {
    "agent": (
        json.dumps(AGENT),
        lambda text: timings_of_agent(read_document(Finished(0, text, "")), [Path("a.tflite")], ["a"]),
    ),
    "phone's tool": (PRINTED, lambda text: [parse_output(text, Path("a.tflite"), 1)]),
}
"""What devices answer, and what reads it."""
PICTURES = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
BYTES = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=12)
EDITS = (lambda data: select_output(data, "features"), to_float16, to_float_io)


@dataclass(frozen=True)
class Format:
    """A text format: a valid document, the name of its file, and what reads it."""

    text: str
    name: str
    read: Callable[[Path], object]


def edits(length: int) -> st.SearchStrategy[list[tuple[int, int, str]]]:
    """Return a strategy for changes: where, how many pieces go, and what takes their place."""
    piece = st.sampled_from(HOSTILE) | st.text(CHARACTERS, max_size=20)
    return st.lists(st.tuples(st.integers(0, length), st.integers(0, 3), piece), min_size=1, max_size=4)


def changed(pieces: Sequence[str], changes: Sequence[tuple[int, int, str]]) -> str:
    found = list(pieces)
    for place, gone, new in changes:
        found[place : place + gone] = [new]
    return "".join(found)


def refused_or_read(read: Callable[[], object]) -> None:
    """Read; only an error for people may be raised."""
    try:
        read()
    except AdvisorError as error:
        assert error.message.strip()


def fuzz(count: int, strategy: st.SearchStrategy[Drawn], check: Callable[[Drawn], None]) -> None:
    """Check ``count`` examples, the same ones in each run."""
    unlimited = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
    kept = settings(max_examples=count, derandomize=True, database=None, suppress_health_check=unlimited)
    kept(given(strategy)(check))()


def first_lines(text: str, count: int) -> str:
    return "".join(text.splitlines(keepends=True)[:count])


def read_run(file: Path) -> Path:
    return LoadedRun.load(file.parent).images_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("formats")


@pytest.fixture(scope="module")
def formats(folder: Path) -> dict[str, Format]:
    """The formats with documents of this package, or made in ``folder``."""
    shipped = find_shipped_profiles()
    run = write_run(folder, dataset=images({"cat": 10, "dog": 10})).path
    catalogue = shipped.parent / "catalogs" / "squeezenet.yaml"
    kernels = folder / "kernels.csv"
    write_kernels(kernels, [Kernel("cpu-x1", "int8", Work("CONV_2D", 49, 8, 3, 9, 2, 588), 12.5)])

    def shipped_text(name: str) -> str:
        return (shipped / name).read_text(encoding="utf-8")

    found = {
        "profile": Format(shipped_text("raspberry-pi-4.yaml"), "raspberry-pi-4.yaml", read_profile),
        "cores": Format(first_lines(shipped_text("cores.yaml"), 60), "cores.yaml", read_cores.__wrapped__),
        "measurements": Format(first_lines(shipped_text("raspberry-pi-4.csv"), 8), "rows.csv", read_measurements),
        "kernels": Format(kernels.read_text("utf-8"), kernels.name, lambda path: read_kernels(path, ["cpu-x1"])),
        "catalogue": Format(catalogue.read_text(encoding="utf-8"), "own.yaml", read_catalogue_file),
        "request": Format(
            "budget: 50ms\ntask: image-classification\nthreads: [1, 2]\nsize_budget: 5MB\nseed: 3\n",
            "request.yaml",
            lambda path: resolve(read_request_file(path)),
        ),
        "images": Format("path,label,split,group\na.jpg,cat,train,1\nb.jpg,dog,test,2\n", "m.csv", list_manifest),
    }
    for name, file in BOXED.items():
        path = WRITERS[name](folder / name, photos(2, "cat", "dog"))
        text = (folder / name / file).read_text(encoding="utf-8")
        found[f"boxes: {name}"] = Format(text, f"{name}/{file}", lambda _file, path=path: list_boxes(path))
    (run / "inputs.json").write_text(json.dumps({"folder": str(folder), "catalogs": {"own.yaml": "catalogs/0.yaml"}}))
    for name in RUN_FILES:
        text = (run / name).read_text(encoding="utf-8")
        found[f"run folder: {name}"] = Format(text, f"{run.name}/{name}", read_run)
    return found


@COUNTS
@pytest.mark.parametrize("name", FORMATS)
def test_changes_of_text_are_read_or_refused(name: str, formats: dict[str, Format], folder: Path, count: int) -> None:
    assert set(formats) == set(FORMATS)
    chosen = formats[name]
    pieces, path = PIECES.findall(chosen.text), folder / chosen.name

    def check(changes: list[tuple[int, int, str]]) -> None:
        path.write_bytes(changed(pieces, changes).encode("utf-8", "surrogatepass"))
        refused_or_read(lambda: chosen.read(path))

    path.write_text(chosen.text, encoding="utf-8")
    chosen.read(path)
    fuzz(count, edits(len(pieces)), check)
    path.write_text(chosen.text, encoding="utf-8")  # other documents of its folder are read next


@pytest.mark.parametrize("name", FORMATS)
def test_a_document_damaged_whole_is_read_or_refused(name: str, formats: dict[str, Format], folder: Path) -> None:
    chosen = formats[name]
    path = folder / chosen.name
    for damage in WHOLE.values():
        damage(path)
        refused_or_read(lambda: chosen.read(path))
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        path.unlink(missing_ok=True)
        path.write_text(chosen.text, encoding="utf-8")


@COUNTS
@pytest.mark.parametrize("name", TEXTS)
def test_values_of_an_option_are_read_or_refused(name: str, count: int) -> None:
    fuzz(count, WRITTEN, lambda text: refused_or_read(lambda: TEXTS[name](text)))


@COUNTS
@pytest.mark.parametrize("name", ANSWERS)
def test_changes_of_a_devices_answer_give_possible_timings_or_are_refused(name: str, count: int) -> None:
    answer, read_answer = ANSWERS[name]
    pieces = PIECES.findall(answer)

    def check(changes: list[tuple[int, int, str]]) -> None:
        try:
            timings = read_answer(changed(pieces, changes))
        except AdvisorError as error:
            assert error.message.strip()
            return
        for timing in timings:
            assert 0 < timing.own_ms < math.inf
            assert 0 <= timing.first_ms < math.inf
            assert timing.threads > 0
            assert timing.memory_bytes is None or timing.memory_bytes >= 0

    fuzz(count, edits(len(pieces)), check)


def damaged(content: bytes, changes: Sequence[tuple[float, int]]) -> bytes:
    """Return a file after changes of bytes, most of them where the tables are; every second file is also cut."""
    result = bytearray(content)
    for place, value in changes:
        result[int(place**3 * len(content))] = value
    return bytes(result if changes[0][1] % 2 else result[: 1 + int(changes[0][0] * len(content))])


def survey(content: bytes) -> None:
    """Compute what is computed of a file before and after it is measured."""
    model = read(content, "fuzzed")
    sizes = activation_arena_bytes(model), len(list_nodes(model)), len(match_events(model, [])), count(model).parameters
    assert all(size >= 0 for size in sizes)
    assert sorted(execution_order(model, set())) == list(range(len(model.operators)))
    for accelerator in read_accelerators().values():
        told = Delegation.of_operators(model, accelerator)
        assert told.taken + len(told.refused) == told.operators


@pytest.mark.integration
@COUNTS
def test_damages_of_a_model_are_read_or_refused(count: int) -> None:
    described = Metadata("net", ("a", "b"), (127.5,), (127.5,))
    models = (
        small_models.classifier(side=8, classes=2, features=True),
        described.write_into(small_models.classifier(side=8, classes=2)),
    )

    def check(changes: list[tuple[float, int]]) -> None:
        content = damaged(models[len(changes) % 2], changes)
        for use in (read_features, Metadata.read, *EDITS):
            refused_or_read(lambda use=use: use(content))  # type: ignore[misc]
        try:
            survey(content)
        except UsageError as error:
            assert "\n" not in error.message
            assert "fuzzed" in error.message

    fuzz(max(count, 100), BYTES, check)


@pytest.mark.integration
@given(st.floats(0, 1, exclude_max=True), st.integers(0, 127))
@settings(deadline=None, max_examples=2, suppress_health_check=list(HealthCheck))
def test_a_measurement_outlives_a_changed_byte_of_its_model(folder: Path, place: float, half: int) -> None:
    path = folder / "changed.tflite"
    path.write_bytes(damaged(small_models.classifier(side=8, classes=2), [(place, 2 * half + 1)]))
    try:
        assert measure(path, effort="load", retry=False).results
    except StageError as error:
        assert "\n" not in error.message
        assert "changed.tflite" in error.message


@COUNTS
@pytest.mark.parametrize("form", PICTURES)
def test_damages_of_an_image_are_read_or_refused(form: str, folder: Path, count: int) -> None:
    path = folder / f"image.{form.lower()}"
    pixels = np.random.default_rng(0).integers(0, 256, (32, 48, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, form)
    image = path.read_bytes()

    def check(changes: list[tuple[float, int]]) -> None:
        path.write_bytes(damaged(image, changes))
        refused_or_read(lambda: load(path, 32))

    fuzz(count, BYTES, check)
