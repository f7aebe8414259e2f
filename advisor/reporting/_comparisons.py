"""Comparisons and re-evaluations of runs, as text or as Markdown for a pull request.

The commands ``compare`` and ``reevaluate`` print them; as JSON, the values write themselves. The
web pages of ``serve`` show the same topics (:func:`list_topics`).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from advisor.core import Quantity, plain, plural, show_figure
from advisor.engine import ChangedFigure, Comparison, Reevaluation
from advisor.reporting._row_selection import Rows
from advisor.reporting._text import escape_markdown, name_place
from advisor.reporting._view import make_typed_path

FIGURES = Rows(ChangedFigure.columns, ChangedFigure.to_row)
"""Figures that differ between two runs."""

SHOWN = 20
"""Number of differences of a topic, and of figures, that text and Markdown show at most."""

MISSING = {"question": "not given", "candidates": "not considered"}
"""Words for a value that one of the runs lacks, by topic; ``none`` elsewhere."""

OUTCOMES: Mapping[str, str] = MappingProxyType(
    {
        "same": "the answer stays",
        "within noise": "the pick differs within the noise of its figures",
        "corrected": "the answer stays, corrected by a measurement",
        "worse": "the answer got worse",
        "changed": "the answer changed",
        "incomplete": "there is no answer to compare",
    }
)
"""The outcome of a comparison in words, by the value of its :attr:`.Comparison.result`."""

STAYED, CHANGED, WORSE, SKIPPED = KINDS = ("the same", "changed", "worse", "skipped")
"""The kinds of outcomes by which answers are counted."""


def render_comparison(comparison: Comparison, form: str) -> str:
    """Return the comparison as ``text`` or ``markdown``, ending in a line break."""
    markdown = form == "markdown"
    show = escape_markdown if markdown else plain
    item = "- " if markdown else "  "
    arrow = "→" if markdown else "->"
    title = (
        f"{show(comparison.before)} {arrow} {show(comparison.after)}: {comparison.result.value}"
    )
    lines = [f"## advisor: {title}", ""] if markdown else [title]
    lines.append(show(comparison.reason))
    for topic in list_topics(comparison):
        heading = f"\n**{topic.title}**\n" if markdown else f"{topic.title}:"
        lines.append(heading)
        lines += (f"{item}{show(row)}" for row in _limit_rows(topic.changes))
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Change:
    """One change in words: its subject, its value before and after, and whether it counts;
    empty without a verdict.
    """

    what: str
    before: str
    after: str
    verdict: str = ""

    @property
    def line(self) -> str:
        """All of it in one line."""
        line = f"{self.what}: {self.before} -> {self.after}"
        return f"{line} ({self.verdict})" if self.verdict else line


@dataclass(frozen=True)
class Topic:
    """The changes of one kind, below a title."""

    title: str
    changes: list[Change]

    @property
    def is_short(self) -> bool:
        """True if text and Markdown show all of them."""
        return len(self.changes) <= SHOWN


def list_topics(comparison: Comparison) -> Iterator[Topic]:
    """Yield the differences by topic, then the figures."""
    for topic in dict.fromkeys(row.topic for row in comparison.differences):
        missing = MISSING.get(topic, "none")
        changes = []
        for row in comparison.differences:
            if row.topic == topic:
                changes.append(Change(row.what, row.before or missing, row.after or missing))
        yield Topic(topic, changes)
    for name, counts in (
        ("figures that changed", True),
        ("figures that vary within the noise", False),
    ):
        changed = [
            _describe_change(row) for row in comparison.figures if row.delta.counts is counts
        ]
        # Figures that differ in digits which nobody is shown are the same to a reader.
        changed = [change for change in changed if change.before != change.after]
        if changed:
            yield Topic(f"{name} ({len(changed)})", changed)


def _limit_rows(rows: Sequence[Change]) -> list[str]:
    lines = [row.line for row in rows[:SHOWN]]
    more = len(rows) - SHOWN
    if more > 0:
        return [*lines, f"and {more} more: --format json shows all"]
    return lines


def _describe_change(row: ChangedFigure) -> Change:
    delta = row.delta
    verdict = delta.why
    if delta.corrected:
        verdict = "corrected by a measurement"
    elif delta.counts:
        verdict = "worse" if delta.worse else "better"
    provenances = set()
    for figure in (delta.before, delta.after):
        if figure:
            provenances.add(figure.provenance)
    # Where both figures come from the same source, it is said once.
    differ = len(provenances) > 1
    before = _show_quantity(delta.figure, delta.before, differ)
    after = _show_quantity(delta.figure, delta.after, differ)
    source = "" if differ else f", {provenances.pop()}"
    what = delta.figure.replace("_", " ")
    return Change(f"{what} of {row.configuration.name}{source}", before, after, verdict)


def _show_quantity(figure: str, quantity: Quantity | None, with_source: bool) -> str:
    if quantity is None:
        return "unknown"
    text = show_figure(figure, quantity.value)
    return f"{text} {quantity.provenance}" if with_source else text


def render_reevaluations(reevaluations: Sequence[Reevaluation], form: str) -> str:
    """Return the results as ``text`` or ``markdown``, ending in a line break."""
    summary = "no new answer"
    if reevaluations:
        tallies = Counter(map(_sort_outcome, reevaluations))
        counts = [f"{tallies[kind]} {kind}" for kind in KINDS if tallies[kind]]
        summary = f"{plural(len(reevaluations), 'answer')}: {', '.join(counts)}"
    if form == "markdown":
        lines = [f"## advisor: {summary}", ""]
        for result in reevaluations:
            first, *details = _list_lines(result)
            lines.append(f"- {escape_markdown(first)}")
            lines += (f"  - {escape_markdown(detail)}" for detail in details)
    else:
        lines = []
        for result in reevaluations:
            lines += map(plain, _list_lines(result))
        lines.append(summary)
    return "\n".join(lines) + "\n"


def _sort_outcome(result: Reevaluation) -> str:
    """Return what became of an answer, one of :data:`KINDS`."""
    if result.error:
        return SKIPPED
    if not result.changed:
        return STAYED
    assert result.comparison is not None, "what changed was compared"
    # A comparison has the same word for it.
    return WORSE if result.comparison.result == WORSE else CHANGED


def _list_lines(result: Reevaluation) -> list[str]:
    """Return what became of the answer of one run on one device, and why."""
    subject = f"{result.parent} on {name_place(result.device)}"
    causes = "; ".join(result.causes)
    if result.error:
        return [f"{subject}: skipped: {result.error}"]
    if result.comparison is None:
        if not causes:
            stays = f"{subject}: the answer stays, because nothing changed since the run"
            return [stays, *result.remarks]
        # What changed, such as a card, was not tried: the remarks say why.
        return [
            f"{subject}: the answer stays, although something changed since the run ({causes})",
            *result.remarks,
        ]
    # It may have been made for the same changes before.
    place = []
    if result.run:
        place = [f"run of this answer: {make_typed_path(result.run)}"]
    outcome = f"{subject}: {OUTCOMES[result.comparison.result]} ({causes})"
    return [outcome, result.comparison.reason, *result.remarks, *place]
