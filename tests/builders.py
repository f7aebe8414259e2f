"""Values for tests of the pure core, files with a content, and the error of a call that must fail."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ParamSpec, TypeVar

import pytest
from hypothesis import strategies as st

from advisor.core import Configuration, Evaluation, Provenance, Quantity, Status, Target, UsageError

E = TypeVar("E", bound=Exception)
P = ParamSpec("P")
T = TypeVar("T")
RUNTIME = "ai-edge-litert==2.3.0"

CHARACTERS = st.characters(exclude_categories=["Cs"])
"""What UTF-8 can hold. ``st.text()`` means the same, and asks the codec first for each character: 1.5 s a process."""


def configuration(card: str = "mobilenet_v2_1.0_224", compression: str = "float32", threads: int = 1) -> Configuration:
    return Configuration(card, "head", compression, Target("host", RUNTIME, "cpu", threads))


def evaluation(
    card: str = "mobilenet_v2_1.0_224",
    compression: str = "float32",
    threads: int = 1,
    *,
    accuracy: float = 80.0,
    half_width: float | None = 3.0,
    latency: float = 10.0,
    p90: float | None = None,
    size: float = 4e6,
    drop: float = 0.0,
) -> Evaluation:
    low, high = (None, None) if half_width is None else (accuracy - half_width, accuracy + half_width)
    provenance = Provenance.PUBLISHED if half_width is None else Provenance.MEASURED
    return Evaluation(
        configuration=configuration(card, compression, threads),
        status=Status.OK,
        family=card.split("_")[0],
        accuracy=Quantity(accuracy, "%", provenance, low, high),
        latency=Quantity(latency, "ms", Provenance.MEASURED),
        latency_p90=Quantity(p90 if p90 is not None else latency * 1.1, "ms", Provenance.MEASURED),
        size=Quantity(size, "bytes", Provenance.MEASURED),
        drop=Quantity(drop, "points", Provenance.MEASURED),
    )


def of_file(made: Evaluation, name: str = "file") -> Evaluation:
    """The evaluation with a file of a name."""
    sha256 = hashlib.sha256(name.encode()).hexdigest()
    return replace(made, artefact=f"artifacts/{name}.tflite", artefact_sha256=sha256)


def present(value: T | None) -> T:
    """Return a value that must be there."""
    assert value is not None
    return value


def interval(found: Quantity) -> tuple[float, float, float]:
    """Return the lower end, the value and the upper end of a quantity that has an interval."""
    return present(found.low), found.value, present(found.high)


def must_fail(kind: type[E], pattern: str, call: Callable[P, object], /, *args: P.args, **options: P.kwargs) -> E:
    """Return the error of a call, whose text has a pattern; that of a wrong use has a hint, too."""
    with pytest.raises(kind) as caught:
        call(*args, **options)
    assert re.search(pattern, str(caught.value)), f"{pattern!r} is not in {str(caught.value)!r}"
    assert not isinstance(caught.value, UsageError) or caught.value.hint
    return caught.value


def write_file(path: Path, content: str | bytes) -> Path:
    """Write a file and the folders above it, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path
