"""State the work of one operator in numbers: pixels, channels, kernel, stride.

`_macs.py` reads it from a file. The predictor of latencies (`devices/`) learns seconds from it,
and its fields are columns of measured kernels (`_profiles/measurements.py`): their names stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields

CONVOLUTION = "CONV_2D"

DEPTHWISE = "DEPTHWISE_CONV_2D"

DENSE = "FULLY_CONNECTED"


@dataclass(frozen=True, order=True)
class Work:
    """One operator as a CPU runs it; ``kind`` is its TFLite name.

    Its output has ``pixels`` positions of ``channels`` values, each computed from ``depth`` input
    channels (1 of a depthwise convolution) at ``taps`` positions of its kernel (9 for 3x3),
    ``stride`` apart. ``read`` are the values of its inputs that are not constant.
    """

    kind: str
    pixels: int
    channels: int
    depth: int = 1
    taps: int = 1
    stride: int = 1
    read: int = 0

    @classmethod
    def list_columns(cls) -> tuple[str, ...]:
        """Return the names of its fields, which are columns of tables: the kind comes first."""
        return tuple(field.name for field in fields(cls))

    @classmethod
    def of_row(cls, row: Mapping[str, str]) -> Work:
        """Return the work that the columns of a row state.

        Raises KeyError for a missing column, ValueError if a size is no whole number.
        """
        kind, *sizes = cls.list_columns()
        return cls(row[kind], **{name: int(row[name]) for name in sizes})

    @property
    def sizes(self) -> tuple[int, ...]:
        """Its numbers, in the order of :meth:`list_columns`."""
        _, *sizes = astuple(self)
        return tuple(sizes)

    @property
    def written(self) -> int:
        """Values of its output."""
        return self.pixels * self.channels

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        return self.written * self.depth * self.taps

    @property
    def weights(self) -> int:
        """Values of its kernel."""
        if self.kind in (CONVOLUTION, DEPTHWISE, DENSE):
            return self.channels * self.depth * self.taps
        return 0
