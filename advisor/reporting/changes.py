"""The comparison of two runs: as text, as Markdown for a pull request, as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict

from advisor.core.escape import markdown as escaped
from advisor.core.escape import plain
from advisor.core.evaluation import Evaluation
from advisor.core.figures import show_figure
from advisor.core.quantity import Quantity
from advisor.engine.history.compare import ChangedFigure, Comparison
from advisor.engine.history.differences import Difference
from advisor.reporting.escape import finite

SCHEMA_VERSION = 1
SHOWN = 20
"""Number of differences of a topic, and of figures, that text and Markdown show at most."""

FORMATS = ("text", "markdown", "json")


def render(comparison: Comparison, form: str) -> str:
    """Return the comparison in one of :data:`FORMATS`, ending in a line break."""
    renderers: Mapping[str, Callable[[Comparison], str]] = {"text": _text, "markdown": _markdown, "json": _json}
    return renderers[form](comparison)


def comparison_json(comparison: Comparison) -> dict[str, object]:
    """Return the comparison as plain values."""
    value: dict[str, object] = finite(
        {
            "schema_version": SCHEMA_VERSION,
            "before": comparison.before,
            "after": comparison.after,
            "outcome": comparison.result.value,
            "recommends_otherwise": comparison.recommends_otherwise,
            "reason": comparison.reason,
            "pick_before": _key(comparison.pick_before),
            "pick_after": _key(comparison.pick_after),
            "differences": [asdict(difference) for difference in comparison.differences],
            "figures": [_figure(row) for row in comparison.figures],
        }
    )
    return value


def _json(comparison: Comparison) -> str:
    return json.dumps(comparison_json(comparison), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _figure(row: ChangedFigure) -> dict[str, object]:
    delta = row.delta
    return {
        "key": row.key,
        "figure": delta.figure,
        "before": delta.before.to_json() if delta.before else None,
        "after": delta.after.to_json() if delta.after else None,
        "counts": delta.counts,
        "worse": delta.worse,
        "why": delta.why,
    }


def _key(evaluation: Evaluation | None) -> str | None:
    return evaluation.configuration.key if evaluation else None


def _text(comparison: Comparison) -> str:
    lines = [
        f"{comparison.before} -> {comparison.after}: {comparison.result.value}",
        comparison.reason,
        *_blocks(comparison, "{}:", lambda row: f"  {row.what}: {_ends(row)}", lambda row: f"  {_changed(row)}"),
    ]
    return "\n".join(plain(line) if not line.startswith("  ") else "  " + plain(line) for line in lines) + "\n"


def _markdown(comparison: Comparison) -> str:
    lines = [
        f"## advisor: {escaped(comparison.before)} → {escaped(comparison.after)}: {comparison.result.value}",
        "",
        escaped(comparison.reason),
        *_blocks(
            comparison,
            "\n**{}**\n",
            lambda row: f"- {escaped(row.what)}: {escaped(_ends(row))}",
            lambda row: f"- {escaped(_changed(row))}",
        ),
    ]
    return "\n".join(lines) + "\n"


def _blocks(
    comparison: Comparison,
    title: str,
    difference: Callable[[Difference], str],
    figure: Callable[[ChangedFigure], str],
) -> Iterable[str]:
    for topic in dict.fromkeys(row.topic for row in comparison.differences):
        rows = [row for row in comparison.differences if row.topic == topic]
        yield title.format(topic)
        yield from _some([difference(row) for row in rows])
    for name, counts in (("figures that changed", True), ("figures that vary within the noise", False)):
        changed = [figure(row) for row in comparison.figures if row.delta.counts is counts]
        if changed:
            yield title.format(f"{name} ({len(changed)})")
            yield from _some(changed)


def _some(lines: list[str]) -> Iterable[str]:
    yield from lines[:SHOWN]
    if len(lines) > SHOWN:
        indent = lines[0][: len(lines[0]) - len(lines[0].lstrip(" -"))]
        yield f"{indent}and {len(lines) - SHOWN} more: --format json shows all"


def _ends(row: Difference) -> str:
    return f"{row.before or 'none'} -> {row.after or 'none'}"


def _changed(row: ChangedFigure) -> str:
    delta = row.delta
    verdict = ("worse" if delta.worse else "better") if delta.counts else delta.why
    name = delta.figure.replace("_", " ")
    return f"{row.key} {name}: {_value(delta.figure, delta.before)} -> {_value(delta.figure, delta.after)} ({verdict})"


def _value(figure: str, quantity: Quantity | None) -> str:
    return "unknown" if quantity is None else f"{show_figure(figure, quantity.value)} {quantity.provenance}"
