"""README.md of a bundle: its files, and commands to try it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from advisor.core.evaluation import Evaluation
from advisor.exporting.devices import benchmark_lines, benchmark_options, devices_of
from advisor.exporting.operators import RUNTIME_KERNELS, UsedOperator, builtins, left_out
from advisor.exporting.templating import render

CONTENTS: Mapping[str, str] = {
    "model.tflite": "the model, with labels and normalization in its metadata",
    "model.tflite.sealed": "the model, encrypted with AES-256-GCM",
    "model_measured.tflite": "the measured artefact, unchanged",
    "model_measured.tflite.sealed": "the measured artefact, encrypted",
    "labels.txt": "one label per line, in the order of the output",
    "model_card.md": "figures with provenance, data, use, licence",
    "bundle.json": "the same facts for programs",
    "check.py": "checks every file and the model's answers to the test vectors",
    "sealed_model.py": "opens the encrypted model in memory",
    "test_vectors/": "images as raw RGB bytes, and the probabilities that the model computes for them",
    "android/": "Kotlin for an app",
    "ios/": "Swift for an app",
    "python/": "a program that classifies images",
    "edgetpu/": "a program for a Coral Edge TPU",
    "BUILD.bazel": "a runtime with only the kernels of this model",
    "selective_build/": "the operators of the model, and their registration in C++",
    "SHA256SUMS": "sha256sum -c SHA256SUMS",
}


def readme(evaluation: Evaluation, operators: tuple[UsedOperator, ...], files: Iterable[str], sealed: bool) -> str:
    """Return README.md for a bundle of ``files``."""
    present = {path.partition("/")[0] + "/" if "/" in path else path for path in files} | {"SHA256SUMS"}
    (device, own), *others = devices_of(evaluation).items()
    return render(
        "README.md.j2",
        configuration=evaluation.configuration,
        contents={name: content for name, content in CONTENTS.items() if name in present},
        sealed=sealed,
        device=device,
        benchmark_lines=benchmark_lines(own),
        benchmark_options=benchmark_options,
        others=others,
        kernels=len(builtins(operators)),
        runtime_kernels=RUNTIME_KERNELS,
        left_out=left_out(operators),
    )
