"""The fleet in the reports of a run: chart, options, table of phones; registered in ``advisor.report_parts``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from advisor.core import (
    accuracy_of,
    listed,
    show_bytes,
    show_ms,
    show_ms_interval,
    show_probability,
    size_of,
    whole_percent,
)
from advisor.reporting import blocks, text

if TYPE_CHECKING:
    from advisor.fleet._answer import Assigned, FleetAnswer, FleetOption
    from advisor.reporting import RunView

TITLE = "Fleet"
COUNTS = ("one file", "two files", "three files")


def blocks_of(view: RunView) -> Sequence[blocks.Block]:
    """Return the section; see :class:`advisor.reporting._view.ReportPart`."""
    found = _answer(view)
    if found is None:
        return ()
    option = found.option
    lines = [f"Instead of it: {found.runner_up}"] if found.runner_up else []
    lines += [f"The files change if {flip}" for flip in found.flips]
    return (
        blocks.Heading("The fleet", "fleet"),
        blocks.Paragraph(f"{found.fleet.title}: {_known(found)}", "lead"),
        blocks.Labelled("Fleet", found.reason, "lead"),
        _chart(found),
        _options(found),
        *([blocks.Items([*lines, *found.notes])] if lines or found.notes else []),
        _files(option),
        _phones(option),
        *_unknown(found),
    )


def document(view: RunView) -> object:
    """Return the answer for programs; see :class:`advisor.reporting._view.ReportPart`."""
    found = _answer(view)
    return None if found is None else document_of(found)


def document_of(found: FleetAnswer) -> dict[str, object]:
    """Return an answer as plain JSON values; shares are 0 to 1, latencies in ms, sizes in bytes."""
    accuracy, files = found.each_device
    return {
        "title": found.fleet.title,
        "recommended_files": len(found.option.files),
        "reason": found.reason,
        "runner_up": found.runner_up,
        "flips": list(found.flips),
        "notes": list(found.notes),
        "unknown_share": found.fleet.unknown_share,
        "unknown": [{"name": each.name, "share": each.share} for each in found.fleet.phones if each.device is None],
        "file_for_each_device": {"accuracy": accuracy, "files": files},
        "options": [_option_json(option, kept) for option, kept in zip(found.options, found.kept, strict=True)],
    }


def _option_json(option: FleetOption, kept: float) -> dict[str, object]:
    worst = option.worst
    return {
        "files": [each.configuration.key for each in option.files],
        "mean_accuracy": option.accuracy,
        "sure_share": option.sure_share,
        "expected_share_within_budget": option.met_share,
        "share_of_value_kept": kept,
        "bytes": option.bytes,
        "worst_device": {"name": worst.phone.name, "probability": worst.probability, "latency_ms": worst.latency_ms},
        "devices": {
            each.phone.name: {
                "share": each.phone.share,
                "tier": each.tier,
                "meets": each.sure,
                "probability": each.probability,
                "latency_ms": each.latency_ms,
                "found": each.phone.found,
            }
            for each in option.phones
        },
    }


def _answer(view: RunView) -> FleetAnswer | None:
    """Return the answer; None without a fleet, or while the search runs, whose files change all the time."""
    if not view.request.question.fleet or view.unfinished or not view.ok:
        return None
    from advisor.fleet._answer import fleet_answer

    return fleet_answer(view.request.question, view.evaluations)


def _known(found: FleetAnswer) -> str:
    known = len(found.fleet.known)
    unknown = found.fleet.unknown_share
    rest = f"; {whole_percent(unknown)} of the users have a phone that is not known" if unknown else ""
    return f"{known} kinds of phones, with LiteRT on the CPU unless the fleet names another target{rest}."


def _chart(found: FleetAnswer) -> blocks.Block:
    """Return accuracy against share of phones: phones in the order of their accuracy, late ones last at 0."""
    series = [(COUNTS[place], _steps(option)) for place, option in enumerate(found.options)]
    return blocks.Chart(
        "Accuracy of the phones within the budget, best first", "share of phones, %", "accuracy, %", series
    )


def _steps(option: FleetOption) -> list[tuple[float, float]]:
    points = list[tuple[float, float]]()
    share = 0.0
    total = sum(each.phone.share for each in option.phones)
    for each in sorted((each for each in option.phones if each.sure), key=lambda each: -each.tier):
        accuracy = accuracy_of(option.files[each.tier])
        points += [(100 * share / total, accuracy)]
        share += each.phone.share
        points += [(100 * share / total, accuracy)]
    return points or [(0.0, 0.0), (100.0, 0.0)]


def _options(found: FleetAnswer) -> blocks.Block:
    titles = blocks.columns(
        "files",
        "mean accuracy %",
        "phones sure to meet the budget",
        "expected within the budget",
        "worst phone",
        "size of all",
        "kept of a file for each phone",
        left=("files", "worst phone"),
    )
    rows = list[Sequence[blocks.Words]]()
    looks = list[str]()
    for place, (option, kept) in enumerate(zip(found.options, found.kept, strict=True)):
        worst = option.worst
        probability = "not predicted" if worst.probability is None else f"{show_probability(worst.probability)} sure"
        met = show_probability(option.met_share)
        rows.append(
            (
                COUNTS[place],
                f"{option.accuracy:.1f}",
                whole_percent(option.sure_share),
                met,
                f"{worst.phone.name} ({probability})",
                show_bytes(option.bytes),
                f"{100 * kept:.1f} %",
            )
        )
        looks.append("strong" if place == found.recommended else "")
    return blocks.DataTable(titles, rows, "One to three files", looks=looks)


def _files(option: FleetOption) -> blocks.Block:
    titles = blocks.columns("tier", "file", "accuracy %", "size", "share of the phones", left=("tier", "file"))
    rows = [
        (
            f"{tier}{' (floor)' if not tier else ''}",
            text.file(file),
            f"{accuracy_of(file):.1f}",
            show_bytes(size_of(file)),
            whole_percent(option.share_of(tier)),
        )
        for tier, file in enumerate(option.files)
    ]
    return blocks.DataTable(titles, rows, "The files")


def _phones(option: FleetOption) -> blocks.Block:
    titles = blocks.columns(
        "phone",
        "share",
        "system",
        "tier",
        "predicted time",
        "probability of meeting the budget",
        "known by",
        left=("phone", "system", "known by"),
    )
    ordered = sorted(option.phones, key=lambda each: -each.phone.share)
    return blocks.Group([blocks.DataTable(titles, [_row(each) for each in ordered], "The phones")], "All phones")


def _row(each: Assigned) -> Sequence[blocks.Words]:
    phone = each.phone
    latency = each.latency_ms
    time = show_ms_interval(latency, each.low_ms, each.high_ms) if latency else each.reason or show_ms(float("inf"))
    probability = "not predicted" if each.probability is None else show_probability(each.probability)
    tier = f"{each.tier}" if each.sure else f"{each.tier}, may be too slow"
    return (phone.name, f"{100 * phone.share:.1f} %", phone.os, tier, time, probability, phone.found)


def _unknown(found: FleetAnswer) -> Sequence[blocks.Block]:
    unknown = [f"{each.name} ({100 * each.share:.1f} %)" for each in found.fleet.phones if each.device is None]
    return [
        blocks.Labelled("Unknown phones", f"{listed(unknown, 20)}; they get the floor until they have measured")
    ] * bool(unknown)


class FleetPart:
    """The part of the reports."""

    TITLE = TITLE
    blocks = staticmethod(blocks_of)
    document = staticmethod(document)


PART = FleetPart()
