"""A coverage-guided fuzzer over the reader, by atheris: ``python -m tests.measurement.fuzz_reader CORPUS``.

An exception other than the clear refusal, a case of over ``-timeout`` seconds or memory over ``-rss_limit_mb`` ends it
with a status other than 0.
"""

import sys

import atheris

with atheris.instrument_imports(include=["advisor.tflite", "advisor.measurement"]):
    from tests.measurement.test_fuzz import survey


def one(data: bytes) -> None:
    """Go the parent's whole way with one case."""
    survey(bytes(data))


if __name__ == "__main__":
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
