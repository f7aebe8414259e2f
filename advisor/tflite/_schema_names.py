"""List the names of an enumeration of TensorFlow Lite's schema (operators, types, activations)."""

from typing import Any


def list_names(kind: Any) -> dict[int, str]:
    """Return the names of an enumeration of the schema by their numbers."""
    return {number: name for name, number in vars(kind).items() if isinstance(number, int)}
