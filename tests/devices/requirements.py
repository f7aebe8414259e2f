"""What a test of another runtime needs."""

from advisor.devices import local_runtimes
from advisor.integrations import microcontroller as micro
from tests.requirements import skip_or_fail


def require_onnx() -> None:
    """Skip the test without ONNX Runtime and its converter."""
    problem, _hint = local_runtimes()["host:onnxruntime"].missing()
    if problem:
        skip_or_fail(problem)


def require_micro() -> None:
    """Skip the test where the interpreter for microcontrollers is not installed."""
    if not micro.available():
        skip_or_fail("tflite-micro is not installed")
