"""The cards that no other card beats in published accuracy and in latency:
measured on this machine, else predicted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from advisor.catalog import CONVERT_VERSION, Card, CardRow, listing
from advisor.core import FORMS, HOST, Quantity, StageError, UsageError, require_training
from advisor.devices import CALIBRATED, Measurement, load_known_devices, local_runtimes
from advisor.engine._targets.device_prediction import DevicePredictor
from advisor.engine._targets.target_devices import TargetDevice
from advisor.isolation import HEAVY, LIGHT, CallLimits, ChildPool, map_pools
from advisor.measurement import measure, require_quiet
from advisor.store import ArtifactCache

Tell = Callable[[str], None]
Latencies = Mapping[CardRow, Quantity]

AT_ONCE = 4
"""Cards that are timed before the others are predicted again."""

_LIMITS = CallLimits(seconds=600, memory_bytes=4_000_000_000)


def card_front(
    rows: Sequence[CardRow],
    device: str,
    profiles: Sequence[str | Path],
    tell: Tell = lambda _: None,
) -> tuple[CardRow, ...]:
    """Return the rows on the front of published top-1 and float latency on ``device``,
    the fastest first.

    This machine times, with random weights, each card that may be on the front by what was timed
    before it. On another device latencies are predicted; on one that runs no float file, those of
    int8.

    Raises:
        UsageError: no device has this name, it runs no card, nothing comparable is known, or this
            machine is too busy.
    """
    profile, target = load_known_devices(profiles).require_installed(device)
    if profile.name in local_runtimes():
        hint = f"list the front on {HOST}; advisor benchmark times files on '{device}'"
        raise UsageError(f"'{device}' runs files, which cards become in a search only", hint)
    there = TargetDevice(device, profile, target)
    predictor = DevicePredictor()
    chosen = []
    for row in rows:
        if row.top1 and not row.card.own_file:
            chosen.append(row)
    if profile.name == HOST:
        return _front(_measure_latencies(chosen, there, predictor, tell))
    latencies, reasons = _predict_latencies(chosen, there, predictor)
    if reasons and not latencies:
        raise UsageError(
            f"no latency on '{device}' can be predicted: {reasons[0]}", "name another device"
        )
    return _front(latencies)


def _predict_latencies(
    rows: Sequence[CardRow], device: TargetDevice, predictor: DevicePredictor
) -> tuple[dict[CardRow, Quantity], list[str]]:
    """Return the predicted latencies, and the reasons why others cannot be predicted."""
    # FORMS begins with float32, so the published accuracy fits wherever the device runs float
    # files.
    form = next((name for name in FORMS if name in device.target.precisions), "float32")
    latencies = dict[CardRow, Quantity]()
    reasons = list[str]()
    for row in rows:
        prediction = predictor.predict_card(row.card, form, device)
        if isinstance(prediction, str):
            reasons.append(prediction)
        # On this machine, timings correct such a prediction.
        elif prediction.unlike and device.profile.name != HOST:
            reasons.append(prediction.unlike)
        else:
            latencies[row] = prediction.latency
    return latencies, reasons


def _front(latencies: Latencies) -> tuple[CardRow, ...]:
    front: list[CardRow] = []
    # Of equal latencies the most accurate comes first, so that no card beside it joins the front.
    for row, latency in sorted(
        latencies.items(), key=lambda pair: (pair[1].value, -(pair[0].top1 or 0))
    ):
        if not front or (row.top1 or 0) > (front[-1].top1 or 0):
            front.append(replace(row, latency=latency))
    return tuple(front)


def _measure_latencies(
    rows: Sequence[CardRow], device: TargetDevice, predictor: DevicePredictor, tell: Tell
) -> dict[CardRow, Quantity]:
    """Return the latencies of the rows that may be on the front;
    without TensorFlow, of those with a graph file.
    """
    threads = device.target.threads
    filled = [row for row in rows if not row.card.needs_converter]
    kind = HEAVY
    if len(filled) == len(rows):
        kind = LIGHT
    if kind == HEAVY:
        try:
            require_training("a card without a graph file")
        except UsageError as error:
            rows = filled
            kind = LIGHT
            tell(f"only cards with a graph file are timed: {error.message}; {error.hint}")
    require_quiet((threads,), force=False)
    timed: dict[CardRow, Quantity] = {}
    with map_pools()[kind](Path("/dev/null")) as pool:
        while True:
            # Each round calibrates the prediction by what was timed,
            # so that most cards are excluded without a timing.
            known = tuple(
                _make_measurement(device, row, latency) for row, latency in timed.items()
            )
            measured = replace(device, profile=replace(device.profile, measurements=known))
            rest, _ = _predict_latencies(
                [row for row in rows if row not in timed], measured, predictor
            )
            open_ = [row for row in rest if not _is_beaten(row, rest[row], {**rest, **timed})]
            if not open_:
                return timed
            tell(f"timing graphs: {len(timed)} timed, at most {len(open_)} to go")
            # Cards near the front first: their timings exclude the most others.
            for row in sorted(open_, key=lambda row: _share(row, rest[row], {**rest, **timed}))[
                :AT_ONCE
            ]:
                make = partial(_build, pool, row.card)
                key = [listing.card_json(row.card), CONVERT_VERSION]
                try:
                    file = (
                        ArtifactCache().get("card-graph-1", {"card": key}, make) / "model.tflite"
                    )
                    timing = measure(file, (threads,), "search")
                except StageError as error:
                    tell(f"{row.card.name} is left out: {error.message}")
                    rows = [other for other in rows if other is not row]
                    continue
                timed[row] = timing.results[0].to_quantities(timing.runtime)["latency"]


def _make_measurement(device: TargetDevice, row: CardRow, latency: Quantity) -> Measurement:
    return Measurement(
        device.target.name,
        row.card.name,
        "float32",
        latency.value,
        "median",
        source_repo=CALIBRATED,
    )


def _list_more_accurate(row: CardRow, others: Collection[CardRow]) -> list[CardRow]:
    """Return the other cards that are at least as accurate."""
    better = []
    for other in others:
        if other is not row and (other.top1 or 0) >= (row.top1 or 0):
            better.append(other)
    return better


def _is_beaten(row: CardRow, latency: Quantity, others: Latencies) -> bool:
    """Return whether another card is at least as accurate and faster
    by the intervals of both latencies.
    """
    low = latency.low or latency.value
    return any(
        (others[other].high or others[other].value) < low
        for other in _list_more_accurate(row, others)
    )


def _share(row: CardRow, latency: Quantity, others: Latencies) -> float:
    """Return the latency over the lowest of the cards that are at least as accurate."""
    return latency.value / min(
        (others[other].value for other in _list_more_accurate(row, others)), default=latency.value
    )


def _build(pool: ChildPool, card: Card, folder: Path) -> None:
    pool.call(
        "advisor.catalog._convert:convert", card, None, folder / "model.tflite", limits=_LIMITS
    )
