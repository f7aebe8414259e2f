"""Predict networks on targets whose kernels were timed."""

from __future__ import annotations

from collections.abc import Mapping

from advisor.devices.latency.features import ModelFeatures
from advisor.devices.latency.model_operators import model_operators
from advisor.devices.latency.network_times import NetworkTimes
from advisor.devices.latency.operator_times import operator_times
from advisor.devices.profiles import DeviceProfile, DeviceTarget
from advisor.devices.profiles.kernels import BYTES
from advisor.tflite.work import Works


def network_times(
    profile: DeviceProfile, target: DeviceTarget, precision: str, measured: Mapping[str, float]
) -> NetworkTimes | None:
    """Return what the kernels and the measured networks of a target say about other networks; None without kernels.

    Args:
        profile: the device.
        target: its target.
        precision: form of the files.
        measured: milliseconds of each network that was measured there, by its name.
    """
    timed = tuple(
        (kernel.work, kernel.microseconds)
        for kernel in profile.kernels
        if kernel.target == target.name and kernel.form == precision
    )
    if not timed:
        return None
    operators, known = operator_times(timed), model_operators()
    anchors = [
        (known[name], milliseconds)
        for name, milliseconds in measured.items()
        if name in known and operators.covers(known[name])
    ]
    return NetworkTimes.of(operators, anchors, bytes_each=BYTES[precision])


def operators_of(model: ModelFeatures, times: NetworkTimes) -> Works:
    """Return the operators of a model if all of them can be predicted from the kernels, else none."""
    works = model.operators or model_operators().get(model.name, ())
    return works if works and times.operators.covers(works) else ()
