"""Find the cards that no other card beats in published accuracy and in latency.

``advisor catalog list --front DEVICE`` shows them, without a search and without images. Latencies
are measured on this machine, with random weights, and predicted on another device.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from advisor.catalog import CONVERT_VERSION, Card, listing
from advisor.core import FORMS, HOST, Quantity, StageError, UsageError, require_training
from advisor.devices import (
    CALIBRATED,
    Measurement,
    load_known_devices,
    local_runtimes,
)
from advisor.engine._targets.device_prediction import DevicePredictor
from advisor.engine._targets.target_devices import TargetDevice
from advisor.isolation import CallLimits, ChildPool, PoolKind
from advisor.measurement import measure, require_quiet
from advisor.store import ArtifactCache

Tell = Callable[[str], None]
Latencies = Mapping[listing.CardRow, Quantity]

AT_ONCE = 4
"""Cards that are timed before the others are predicted again."""

_LIMITS = CallLimits(seconds=600, memory_bytes=4_000_000_000)


def card_front(
    rows: Sequence[listing.CardRow],
    device: str,
    profiles: Sequence[str | Path],
    tell: Tell = lambda _: None,
) -> tuple[listing.CardRow, ...]:
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
    comparable = []
    for row in rows:
        if row.top1 and not row.card.own_file:
            comparable.append(row)
    if profile.name == HOST:
        return _find_front(_measure_latencies(comparable, there, predictor, tell))
    latencies, reasons = _predict_latencies(comparable, there, predictor)
    if reasons and not latencies:
        raise UsageError(
            f"no latency on '{device}' can be predicted: {reasons[0]}", "name another device"
        )
    return _find_front(latencies)


def _predict_latencies(
    rows: Sequence[listing.CardRow], device: TargetDevice, predictor: DevicePredictor
) -> tuple[dict[listing.CardRow, Quantity], list[str]]:
    """Return the predicted latencies, and the reasons why others cannot be predicted."""
    # FORMS begins with float32, so the published accuracy fits wherever the device runs float
    # files.
    form = next((name for name in FORMS if name in device.target.precisions), "float32")
    latencies = dict[listing.CardRow, Quantity]()
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


def _find_front(latencies: Latencies) -> tuple[listing.CardRow, ...]:
    """Return the rows that no faster one reaches in accuracy, the fastest first."""
    front: list[listing.CardRow] = []
    # Of equal latencies the most accurate comes first, so that no card beside it joins the front.
    rows = sorted(latencies, key=lambda row: (latencies[row].value, -_accuracy(row)))
    for row in rows:
        if not front or _accuracy(row) > _accuracy(front[-1]):
            front.append(replace(row, latency=latencies[row]))
    return tuple(front)


def _accuracy(row: listing.CardRow) -> float:
    """Return the published top-1 of a card; 0 if it has none."""
    return row.top1 or 0.0


def _measure_latencies(
    rows: Sequence[listing.CardRow], device: TargetDevice, predictor: DevicePredictor, tell: Tell
) -> dict[listing.CardRow, Quantity]:
    """Return the latencies of the rows that may be on the front;
    without TensorFlow, of those with a graph file.
    """
    left, kind = _choose_buildable(rows, tell)
    require_quiet((device.target.threads,), force=False)
    timed: dict[listing.CardRow, Quantity] = {}
    with kind.open(Path("/dev/null")) as pool:
        while True:
            # Each round calibrates the prediction by what was timed,
            # so that most cards are excluded without a timing.
            measurements = []
            for row, latency in timed.items():
                measurements.append(_make_measurement(device, row, latency))
            profile = replace(device.profile, measurements=tuple(measurements))
            measured = replace(device, profile=profile)
            predicted, _reasons = _predict_latencies(left, measured, predictor)
            candidates = _list_candidates(predicted, timed)
            if not candidates:
                return timed
            tell(f"timing graphs: {len(timed)} timed, at most {len(candidates)} to go")
            for row in candidates[:AT_ONCE]:
                left.remove(row)
                try:
                    timed[row] = _time_card(pool, row.card, device.target.threads)
                except StageError as error:
                    tell(f"{row.card.name} is left out: {error.message}")


def _choose_buildable(
    rows: Sequence[listing.CardRow], tell: Tell
) -> tuple[list[listing.CardRow], PoolKind]:
    """Return the rows whose graphs can be made here, and the kind of child that makes them."""
    with_graph_file = [row for row in rows if not row.card.needs_converter]
    if len(with_graph_file) == len(rows):
        return with_graph_file, PoolKind.LIGHT
    try:
        require_training("a card without a graph file")
    except UsageError as error:
        tell(f"only cards with a graph file are timed: {error.message}; {error.hint}")
        return with_graph_file, PoolKind.LIGHT
    return list(rows), PoolKind.HEAVY


def _list_candidates(predicted: Latencies, timed: Latencies) -> list[listing.CardRow]:
    """Return the rows that may be on the front, those near it first:
    their timings exclude the most others.
    """
    latencies = {**predicted, **timed}
    candidates = [row for row in predicted if not _is_beaten(row, latencies)]
    candidates.sort(key=lambda row: _compare_with_best(row, latencies))
    return candidates


def _time_card(pool: ChildPool, card: Card, threads: int) -> Quantity:
    """Return the latency of a card's graph here; StageError if it cannot be made or run."""
    # The name and the version are the key of the cache: another graph needs another number.
    key = [listing.card_json(card), CONVERT_VERSION]
    folder = ArtifactCache().get("card-graph-1", {"card": key}, partial(_build_graph, pool, card))
    timing = measure(folder / "model.tflite", (threads,), "search")
    return timing.results[0].to_quantities(timing.runtime)["latency"]


def _make_measurement(
    device: TargetDevice, row: listing.CardRow, latency: Quantity
) -> Measurement:
    return Measurement(
        target=device.target.name,
        model=row.card.name,
        precision="float32",
        latency_ms=latency.value,
        statistic="median",
        source_repo=CALIBRATED,
    )


def _list_more_accurate(
    row: listing.CardRow, others: Collection[listing.CardRow]
) -> list[listing.CardRow]:
    """Return the other cards that are at least as accurate."""
    better = []
    for other in others:
        if other is not row and _accuracy(other) >= _accuracy(row):
            better.append(other)
    return better


def _is_beaten(row: listing.CardRow, latencies: Latencies) -> bool:
    """Return whether another card is at least as accurate and faster,
    by the intervals of both latencies.
    """
    low = latencies[row].low or latencies[row].value
    for other in _list_more_accurate(row, latencies):
        latency = latencies[other]
        if (latency.high or latency.value) < low:
            return True
    return False


def _compare_with_best(row: listing.CardRow, latencies: Latencies) -> float:
    """Return the latency over the lowest of the cards that are at least as accurate."""
    others = [latencies[other].value for other in _list_more_accurate(row, latencies)]
    latency_ms = latencies[row].value
    return latency_ms / min(others, default=latency_ms)


def _build_graph(pool: ChildPool, card: Card, folder: Path) -> None:
    pool.call(
        "advisor.catalog._convert:convert", card, None, folder / "model.tflite", limits=_LIMITS
    )
