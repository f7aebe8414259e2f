"""The latency of a model that was measured on the target itself."""

from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from advisor.core.quantity import Provenance, Quantity
from advisor.devices.latency.posterior import NOISE
from advisor.devices.latency.references import distance
from advisor.devices.latency.releases import change
from advisor.devices.latency.table import LatencyTable
from advisor.devices.profiles import DeviceTarget
from advisor.devices.profiles.measurements import Measurement


class MeasuredLatency(NamedTuple):
    """A measured latency (ms) with its source, its deviation (log), and whether another release measured it."""

    milliseconds: float
    source: str
    deviation: float
    other_release: bool


def measured_latency(table: LatencyTable, target: DeviceTarget, rows: Sequence[Measurement]) -> MeasuredLatency:
    """Return the latency of one model from its measurements on a target: their geometric mean.

    If another release of the runtime measured it, the deviation grows with the distance of the releases.

    Args:
        table: all measurements; they show what a release changes.
        target: the target.
        rows: the measurements of the model on it, at least one.
    """
    milliseconds = float(np.exp(np.mean([np.log(row.latency_ms) for row in rows])))
    steps = [distance(row.runtime_version, target.version) for row in rows if row.runtime_version and target.version]
    furthest = max(steps, default=0)
    deviation = float(np.hypot(NOISE, change(table, target.runtime, furthest)))
    return MeasuredLatency(milliseconds, rows[0].source_repo, deviation, furthest > 0)


def measured_quantity(
    measured: MeasuredLatency, provenance: Provenance, device: str, expected: float | None, level: float
) -> Quantity:
    """Return a measurement as a quantity.

    Args:
        measured: the measurement.
        provenance: measured by the user, or published.
        device: name of the device.
        expected: what the target's other models expect (ms) if they contradict it, else None.
        level: confidence of the interval.
    """
    half_width = measured.deviation * NormalDist().inv_cdf((1 + level) / 2)
    remarks = "; measured with another release" if measured.other_release else ""
    remarks += f"; contradicts the other models, which expect {expected:.3g} ms" if expected else ""
    return Quantity(
        measured.milliseconds,
        "ms",
        provenance,
        measured.milliseconds * float(np.exp(-half_width)),
        measured.milliseconds * float(np.exp(half_width)),
        level,
        source=f"{measured.source} on {device}{remarks}",
    )
