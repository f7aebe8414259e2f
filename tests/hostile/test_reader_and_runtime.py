"""Our reader and the runtime see the same model in a damaged file, wherever both accept it."""

import json
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from advisor.core import AdvisorError
from advisor.tflite import read
from tests.measurement import small_models
from tests.tables import read_table

pytestmark = pytest.mark.integration

RUNTIME = read_table(__file__, "programs.yaml")["runtime"]
"""Prints each path, then what the runtime reads there; native code may end the process."""

Ends = list[list[tuple[tuple[int, ...], str]]]  # Shapes and types of the inputs, and of the outputs


def damaged(folder: Path, count: int) -> list[Path]:
    """Write files with one to three changed bytes, most of them where the tables are."""
    data, draw, files = small_models.classifier(), random.Random(count), []
    for number in range(count):
        content = bytearray(data)
        for _ in range(draw.randint(1, 3)):
            content[int(draw.random() ** 3 * len(data))] = draw.randrange(256)
        files.append(folder / f"{number}.tflite")
        files[-1].write_bytes(content)
    return files


def by_runtime(files: Sequence[Path]) -> Iterator[tuple[Path, Ends | None]]:
    """Yield each file with what the runtime reads; None if it refuses it, or ends with it."""
    left = list(files)
    while left:
        argv = [sys.executable, "-c", RUNTIME, *map(str, left)]
        said = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False).stdout.splitlines()
        assert said, "the runtime did not start"
        answers = dict(zip(said[::2], [*map(json.loads, said[1::2]), None], strict=False))
        for path, ends in answers.items():
            yield Path(path), ends and [[(tuple(shape), dtype) for shape, dtype in end] for end in ends]
        left = left[len(answers) :]


def by_us(path: Path) -> Ends | None:
    try:
        model = read(path)
    except AdvisorError:
        return None
    graph = model.subgraphs[0]
    chosen = ([graph.tensors[index] for index in indices] for indices in (graph.inputs, graph.outputs))
    return [[(tensor.shape, tensor.dtype) for tensor in tensors] for tensors in chosen]


@pytest.mark.parametrize("count", [80, pytest.param(3000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
def test_damaged_files_are_read_alike_or_refused(tmp_path: Path, count: int) -> None:
    compared = seen = 0
    for path, ends in by_runtime(damaged(tmp_path, count)):
        ours, seen = by_us(path), seen + 1
        if ends is not None and ours is not None:
            assert ours == ends, path.read_bytes().hex()
            compared += 1
    assert seen == count
    assert compared > count / 5
