"""The files that the interpreter runs and the compiler compiles."""

from tests.measurement.conftest import float_model, folder, int8_model

__all__ = ["float_model", "folder", "int8_model"]
