"""Check the rows of the shipped profiles: each says what was measured, and none is an outlier.

The rows are published measurements of others, in ``device_profiles/``. An outlier needs an
explanation in its row.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from advisor.devices import DeviceProfile, Measurement
from advisor.devices._profiles import read_profile
from advisor.devices._profiles.cores import CORES_FILE
from benchmarks.device_sources.outliers import Placed, slower_releases, unexplained
from benchmarks.device_sources.rows import sides

PROFILES = Path(__file__).resolve().parents[2] / "device_profiles"


def problems() -> Iterator[str]:
    """Yield one line for each row that lacks a fact, contradicts its network, or is an outlier."""
    paths = [path for path in sorted(PROFILES.glob("*.yaml")) if path.name != CORES_FILE]
    yield from problems_of([read_profile(path) for path in paths], sides())


def problems_of(profiles: Iterable[DeviceProfile], known: dict[str, int]) -> Iterator[str]:
    """Yield the problems of some profiles.

    Args:
        profiles: the profiles.
        known: input side by network.
    """
    placed = []
    for profile in profiles:
        targets = {target.name: target for target in profile.targets}
        for row in profile.measurements:
            yield from (
                f"{profile.name}.csv: {row.target} {row.model}: {fault}"
                for fault in _faults(row, known)
            )
            placed.append(
                Placed(
                    profile.name, targets[row.target].accelerator, targets[row.target].runtime, row
                )
            )
    for bad in sorted(
        f"{row.device}.csv: {row.figure.target} {row.figure.model}" for row in unexplained(placed)
    ):
        yield f"{bad}: differs from the other devices; explain it, or flag it as unexplained"
    for model, factor in sorted(slower_releases(placed).items()):
        yield (
            f"{model}: {factor:.1f} times slower in the later release of AI Hub; check its input"
            " side in both"
        )


def _faults(row: Measurement, known: dict[str, int]) -> Iterator[str]:
    facts = {"graph": row.graph, "runtime_version": row.runtime_version, "source": row.source_repo}
    for name, value in facts.items():
        if not value:
            yield f"the row has no {name}"
    if row.input_side is None and not row.flag:
        yield "the row has no input_side and no flag"
    if row.usable and row.model in known and row.input_side != known[row.model]:
        yield f"input_side {row.input_side} is not that of the network, {known[row.model]}"
