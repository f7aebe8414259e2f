"""README.md of a bundle: its files, and commands to try it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from advisor.core.escape import markdown as escaped
from advisor.core.evaluation import Evaluation
from advisor.exporting.operators import RUNTIME_KERNELS, UsedOperator, builtins, left_out
from advisor.exporting.settings import Setting, settings

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
    lines = [
        f"# {escaped(evaluation.configuration.card)} {escaped(evaluation.configuration.compression)}",
        "",
        *(f"- `{name}`: {what}" for name, what in CONTENTS.items() if name in present),
        "",
        "## Try it",
        "",
        "```",
        f"python check.py{' --key-file model.key' if sealed else ''}",
        *_python(present, sealed),
        "```",
        "",
        *_benchmark(evaluation, sealed),
        "## A smaller runtime",
        "",
        f"The model needs {len(builtins(operators))} of the {RUNTIME_KERNELS} builtin kernels of LiteRT 2.3:",
        f"a selective build omits {left_out(operators)}. In a Bazel workspace with TensorFlow:",
        "",
        "```",
        "bazel build -c opt --config=android_arm64 //:runtime_android",
        "bazel build -c opt //:runtime_cc",
        "```",
        "",
    ]
    return "\n".join(lines)


def _python(present: set[str], sealed: bool) -> list[str]:
    if "python/" not in present:
        return []
    return [f"{'MODEL_KEY_FILE=model.key ' if sealed else ''}python python/classify.py photo.jpg"]


def benchmark_lines(setting: Setting) -> tuple[str, ...]:
    """Return the commands that time the model on an Android phone and on a computer with benchmark_model."""
    options = setting.options
    return (
        "adb push model.tflite benchmark_model /data/local/tmp/",
        "adb shell chmod +x /data/local/tmp/benchmark_model",
        f"adb shell /data/local/tmp/benchmark_model --graph=/data/local/tmp/model.tflite {options}",
        f"./benchmark_model --graph=model.tflite {options}",
    )


def _benchmark(evaluation: Evaluation, sealed: bool) -> list[str]:
    own, *others = settings(evaluation)
    device = escaped(own.device)
    plain = " It needs the model before encryption." if sealed else ""
    return [
        "## Time it on a device",
        "",
        f"The latency in the model card was obtained on {device}. `benchmark_model` measures it on your device, with",
        f"the same number of threads.{plain}",
        "",
        "```",
        *benchmark_lines(own),
        "```",
        "",
        *(["On the other devices of the search, use these options:", ""] if others else []),
        *(f"- {escaped(other.device)}: `{other.options}`" for other in others),
        *([""] if others else []),
    ]
