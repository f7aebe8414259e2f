"""A float model as the catalogue's cards give it, converted once and shared by the processes of a test run."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from advisor.tflite import select_output
from tests.makers.once import make_once
from tests.tflite.running import Array, Quantize, Run


@pytest.fixture(scope="session")
def converted(starts_processes: None, shared_folder: Path) -> Path:
    """Folder with ``float32.tflite`` and ``float16.tflite`` of one network."""
    return make_once(shared_folder / "tflite-master", convert_master)


def convert_master(folder: Path) -> None:
    """Convert the network in a process that loads TensorFlow."""
    script = Path(__file__).with_name("convert_master.py")
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    subprocess.run([sys.executable, str(script), str(folder)], check=True, capture_output=True, env=environment)


@pytest.fixture(scope="session")
def master(converted: Path) -> bytes:
    """The float32 file: ``image`` (1, 96, 96, 3) to ``features`` (1, 1280) and ``probabilities`` (1, 100)."""
    return (converted / "float32.tflite").read_bytes()


@pytest.fixture(scope="session")
def backbone(master: bytes) -> bytes:
    """The file up to its ``features``."""
    return select_output(master, "features")


@pytest.fixture(scope="session")
def images() -> list[Array]:
    """Eight normalised inputs of the master."""
    random = np.random.default_rng(3)
    return [random.uniform(-1, 1, (1, 96, 96, 3)).astype(np.float32) for _ in range(8)]


@pytest.fixture(scope="session")
def run() -> Run:
    """Run a model's signature in LiteRT with its default delegate (XNNPACK)."""
    from ai_edge_litert.interpreter import Interpreter

    def invoke(data: bytes, inputs: Mapping[str, Array]) -> dict[str, Array]:
        interpreter = Interpreter(model_content=data, num_threads=1)
        outputs: dict[str, Array] = interpreter.get_signature_runner()(**inputs)
        return outputs

    return invoke


@pytest.fixture(scope="session")
def quantize(images: list[Array]) -> Quantize:
    """Quantize a model of the master's input, calibrated on ``images`` unless told otherwise."""
    from ai_edge_quantizer import quantizer, recipe

    def apply(data: bytes, name: str, calibration: Sequence[Array] = images) -> bytes:
        job = quantizer.Quantizer(bytearray(data))
        job.load_quantization_recipe(getattr(recipe, name)())
        samples = {"serving_default": [{"image": image} for image in calibration]}
        statistics = job.calibrate(samples) if job.need_calibration else None
        return bytes(job.quantize(statistics).quantized_model)

    return apply
