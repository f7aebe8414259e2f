"""The section of the fleet in the reports of a run: chart, options, and table of phones.

Reports call :class:`FleetPart` (:class:`advisor.reporting._view.ReportPart`). Keys of
:func:`document` are a part of ``recommendation.json``, which ``_changes.py`` and users' programs
read: they stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from advisor.core import listed, show_bytes, show_ms, show_probability, units
from advisor.reporting import blocks, text

if TYPE_CHECKING:
    from advisor.integrations.fleet._answer import Assigned, FleetAnswer, FleetOption
    from advisor.reporting import RunView

TITLE = "Fleet"
COUNTS = ("one file", "two files", "three files")
"""Names of the options in words: the first has one file for all phones."""


def blocks_of(view: RunView) -> Sequence[blocks.Block]:
    """Return the section; see :class:`advisor.reporting._view.ReportPart`."""
    answer = _answer(view)
    if answer is None:
        return ()
    option = answer.option
    sentences = []
    if answer.runner_up:
        sentences.append(f"Instead of it: {answer.runner_up}")
    sentences += [f"The files change if {flip}" for flip in answer.flips]
    sentences += answer.notes
    return (
        blocks.Heading("The fleet", "fleet"),
        blocks.Paragraph(f"{answer.fleet.title}: {_describe_known(answer)}", "lead"),
        blocks.Labelled("Fleet", answer.reason, "lead"),
        _make_chart(answer),
        _make_options(answer),
        *([blocks.Items(sentences)] if sentences else []),
        _list_files(option),
        _list_phones(option),
        *_list_unknown(answer),
    )


def document(view: RunView) -> object:
    """Return the answer for programs; see :class:`advisor.reporting._view.ReportPart`."""
    answer = _answer(view)
    return None if answer is None else document_of(answer)


def document_of(answer: FleetAnswer) -> dict[str, object]:
    """Return an answer as plain JSON values; shares are 0 to 1, latencies in ms,
    sizes in bytes.
    """
    accuracy, files = answer.each_device
    unknown = []
    for phone in answer.fleet.phones:
        if phone.device is None:
            unknown.append({"name": phone.name, "share": phone.share})
    options = []
    for option, share_kept in zip(answer.options, answer.kept, strict=True):
        options.append(_option_json(option, share_kept))
    return {
        "title": answer.fleet.title,
        "recommended_files": len(answer.option.files),
        "reason": answer.reason,
        "runner_up": answer.runner_up,
        "flips": list(answer.flips),
        "notes": list(answer.notes),
        "unknown_share": answer.fleet.unknown_share,
        "unknown": unknown,
        "file_for_each_device": {"accuracy": accuracy, "files": files},
        "options": options,
    }


def _option_json(option: FleetOption, share_kept: float) -> dict[str, object]:
    worst = option.worst
    devices = {}
    for assigned in option.phones:
        devices[assigned.phone.name] = {
            "share": assigned.phone.share,
            "tier": assigned.tier,
            "meets": assigned.sure,
            "probability": assigned.probability,
            "latency_ms": assigned.latency_ms,
            "found": assigned.phone.found,
        }
    return {
        "files": [file.configuration.key for file in option.files],
        "mean_accuracy": option.accuracy,
        "sure_share": option.sure_share,
        "expected_share_within_budget": option.met_share,
        "share_of_value_kept": share_kept,
        "bytes": option.bytes,
        "worst_device": {
            "name": worst.phone.name,
            "probability": worst.probability,
            "latency_ms": worst.latency_ms,
        },
        "devices": devices,
    }


def _answer(view: RunView) -> FleetAnswer | None:
    """Return the answer; None without a fleet, or while the files of a search still change."""
    if not view.request.question.fleet or view.insights.unfinished or not view.ok:
        return None
    from advisor.integrations.fleet._answer import fleet_answer

    return fleet_answer(view.request.question, view.evaluations)


def _describe_known(answer: FleetAnswer) -> str:
    known = len(answer.fleet.known)
    unknown = answer.fleet.unknown_share
    rest = ""
    if unknown:
        rest = f"; {text.whole_percent(unknown)} of the users have a phone that is not known"
    return (
        f"{known} kinds of phones, with LiteRT on the CPU unless the fleet names another"
        f" target{rest}."
    )


def _make_chart(answer: FleetAnswer) -> blocks.Block:
    """Return accuracy against share of phones, ordered by their accuracy, late ones last at 0."""
    series = [(COUNTS[place], _steps(option)) for place, option in enumerate(answer.options)]
    return blocks.Chart(
        "Accuracy of the phones within the budget, best first",
        "share of phones, %",
        "accuracy, %",
        series,
    )


def _steps(option: FleetOption) -> list[tuple[float, float]]:
    """Return the points of an option's line: share of the phones in % and their accuracy.

    The best phones come first.
    """
    points = list[tuple[float, float]]()
    share = 0.0
    total = sum(assigned.phone.share for assigned in option.phones)
    sure_phones = [assigned for assigned in option.phones if assigned.sure]
    # Two points for each phone draw a step: the accuracy is level over its share.
    for assigned in sorted(sure_phones, key=lambda assigned: -assigned.tier):
        accuracy = option.files[assigned.tier].accuracy_percent
        points += [(100 * share / total, accuracy)]
        share += assigned.phone.share
        points += [(100 * share / total, accuracy)]
    return points or [(0.0, 0.0), (100.0, 0.0)]


def _make_options(answer: FleetAnswer) -> blocks.Block:
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
    for place, (option, share_kept) in enumerate(zip(answer.options, answer.kept, strict=True)):
        worst = option.worst
        probability = "not predicted"
        if worst.probability is not None:
            probability = f"{show_probability(worst.probability)} sure"
        met = show_probability(option.met_share)
        rows.append(
            (
                COUNTS[place],
                f"{option.accuracy:.1f}",
                text.whole_percent(option.sure_share),
                met,
                f"{worst.phone.name} ({probability})",
                show_bytes(option.bytes),
                f"{100 * share_kept:.1f} %",
            )
        )
        looks.append("strong" if place == answer.recommended else "")
    return blocks.DataTable(titles, rows, "One to three files", looks=looks)


def _list_files(option: FleetOption) -> blocks.Block:
    titles = blocks.columns(
        "tier", "file", "accuracy %", "size", "share of the phones", left=("tier", "file")
    )
    rows = []
    for tier, file in enumerate(option.files):
        rows.append(
            (
                "0 (floor)" if tier == 0 else str(tier),
                text.file(file),
                f"{file.accuracy_percent:.1f}",
                show_bytes(file.size_bytes),
                text.whole_percent(option.share_of(tier)),
            )
        )
    return blocks.DataTable(titles, rows, "The files")


def _list_phones(option: FleetOption) -> blocks.Block:
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
    ordered = sorted(option.phones, key=lambda assigned: -assigned.phone.share)
    return blocks.Group(
        [blocks.DataTable(titles, list(map(_make_row, ordered)), "The phones")], "All phones"
    )


def _make_row(assigned: Assigned) -> Sequence[blocks.Words]:
    phone = assigned.phone
    latency = assigned.latency_ms
    # Without a prediction, its reason stands in the place of the time.
    time = assigned.reason or show_ms(float("inf"))
    if latency:
        time = units.show_ms_interval(latency, assigned.low_ms, assigned.high_ms)
    probability = "not predicted"
    if assigned.probability is not None:
        probability = show_probability(assigned.probability)
    tier = f"{assigned.tier}" if assigned.sure else f"{assigned.tier}, may be too slow"
    return (
        phone.name,
        f"{100 * phone.share:.1f} %",
        phone.os,
        tier,
        time,
        probability,
        phone.found,
    )


def _list_unknown(answer: FleetAnswer) -> Sequence[blocks.Block]:
    unknown_phones = [phone for phone in answer.fleet.phones if phone.device is None]
    if not unknown_phones:
        return []
    names = listed([f"{phone.name} ({100 * phone.share:.1f} %)" for phone in unknown_phones], 20)
    return [
        blocks.Labelled("Unknown phones", f"{names}; they get the floor until they have measured")
    ]


class FleetPart:
    """The section of the fleet in the reports: see :class:`advisor.reporting._view.ReportPart`."""

    TITLE = TITLE
    blocks = staticmethod(blocks_of)
    document = staticmethod(document)
