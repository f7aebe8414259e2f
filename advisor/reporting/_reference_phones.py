"""The predicted latency of the pick on two phones that many people know.

An answer whose question names no device has the latency of this machine alone, which says little
about a phone. ``_explanation.py`` puts these predictions beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from advisor.core import Evaluation, Quantity, Status, Target, plural
from advisor.reporting._view import RunView

UnitOfPlace = tuple[str, str]
"""The processor that runs a file and its machine, in words: ``2 CPU threads``, ``this
machine``.
"""


REFERENCES = {"galaxy-a54": ("a mid-range phone", 2023), "galaxy-s23": ("a flagship", 2023)}
"""Phones for which the pick is predicted where the question names no device, with words and the
year of each. The prediction is of the phone's CPU, because the code of a bundle runs there.
"""


def describe_unit(target: Target) -> str:
    """Return what of a device runs a file: ``2 CPU threads``, ``the NPU``."""
    if target.accelerator == "cpu":
        return plural(target.threads, "CPU thread")
    return f"the {target.accelerator.upper()}"


@cache
def _make_predictor(threads: int) -> Callable[[Evaluation], dict[UnitOfPlace, Quantity]]:
    """Return what predicts a file's latency by the words for each reference phone;
    its model is fitted once.
    """
    from advisor.engine import DevicePredictor, TargetDevice

    predictor = DevicePredictor()
    devices = dict[UnitOfPlace, TargetDevice]()
    for name, (kind, year) in REFERENCES.items():
        (phone,) = TargetDevice.select((name,), (), "--device")
        cpus = {}
        for target in phone.profile.targets:
            if target.accelerator == "cpu":
                cpus[target.threads] = target
        # As many threads as the pick has here, or the next fewer of the profile.
        count = max((count for count in cpus if count <= threads), default=min(cpus))
        device = replace(phone, target=cpus[count])
        devices[describe_unit(device.identity), f"{kind} ({phone.profile.title}, {year})"] = device

    def predict(file: Evaluation) -> dict[UnitOfPlace, Quantity]:
        latencies = {}
        for words, device in devices.items():
            for evaluation in predictor.evaluate([file], device, None):
                if evaluation.latency and evaluation.status is Status.OK:
                    latencies[words] = evaluation.latency
        return latencies

    return predict


def predict_on_phones(view: RunView) -> dict[UnitOfPlace, Quantity]:
    """Return the predicted latency of the pick by the words for each reference phone.

    Nothing where the question names a device, before the search has ended,
    and where nothing can be predicted.
    """
    pick = view.decision.pick
    if pick is None or view.insights.unfinished or not view.only_here:
        return {}
    return _make_predictor(pick.configuration.target.threads)(pick)
