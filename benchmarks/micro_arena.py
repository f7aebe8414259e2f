"""The tensor arena of TensorFlow Lite Micro: computed from twenty int8 files, and found with the real interpreter.

    python -m benchmarks micro_arena

The sizes in :mod:`advisor.tflite._arena` were found on single operators and on the first ten files; the other ten
judge. The smallest arena is found by bisection.
"""

import statistics
from pathlib import Path

from advisor.integrations.microcontroller import check
from advisor.tflite import activation_arena_bytes, micro_arena, read
from benchmarks.micro_networks import FIT, JUDGE, files_of
from benchmarks.tables import Row, keep

GOAL = 0.02
HEADER = (
    "file", "used to", "smallest arena, bytes", "computed", "difference %", "activations", "computed activations",
    "LiteRT's activations, difference %", "outputs compared", "differ from LiteRT's reference kernels",
    "differ from its default kernels",
)  # fmt: skip


def main() -> None:
    """Check every file and keep the table."""
    found = [_row(name, "fit", path) for name, path in files_of(FIT).items()]
    found += [_row(name, "judge", path) for name, path in files_of(JUDGE).items()]
    apart = {use: [abs(float(str(row[4]))) / 100 for row in found if row[1] == use] for use in ("fit", "judge")}
    remarks = [
        f"{use}: {sum(each <= GOAL for each in errors)} of {len(errors)} files within {100 * GOAL:g} %, "
        f"median difference {100 * statistics.median(errors):.2f} %, largest {100 * max(errors):.2f} %"
        for use, errors in apart.items()
    ]
    runtime = check(next(iter(files_of(FIT).values())), inputs=1).runtime
    remarks.append(f"{runtime}, reference kernels, pointers of 64 bits; random weights and inputs")
    print(keep("micro_arena", "Tensor arena of TensorFlow Lite Micro", HEADER, found, remarks))


def _row(name: str, use: str, path: Path) -> Row:
    model, real = read(path), check(path)
    if real.reason:
        raise SystemExit(f"{name}: {real.reason}")
    computed, before = micro_arena(model), activation_arena_bytes(model)
    return (
        name, use, real.arena_bytes, computed.total, f"{100 * (computed.total / real.arena_bytes - 1):+.2f}",
        real.activation_bytes, computed.activations, f"{100 * (before / real.arena_bytes - 1):+.1f}", real.values,
        real.differences["reference"].differing, real.differences["default"].differing,
    )  # fmt: skip
