"""What a test of another runtime needs."""

from advisor.devices import local_runtimes
from tests.requirements import skip_or_fail


def require_onnx() -> None:
    """Skip the test without ONNX Runtime and its converter."""
    problem, _hint = local_runtimes()["host:onnxruntime"].missing()
    if problem:
        skip_or_fail(problem)
