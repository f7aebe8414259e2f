"""Results of re-evaluating earlier runs: as text, Markdown and JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from advisor.core.escape import markdown as escaped
from advisor.core.escape import plain
from advisor.engine.history.reevaluation.session import Reevaluation
from advisor.reporting.changes import comparison_json
from advisor.reporting.text import plural

SCHEMA_VERSION = 1


def render(found: Sequence[Reevaluation], form: str) -> str:
    """Return the results in one of :data:`advisor.reporting.changes.FORMATS`, ending in a line break."""
    renderers: Mapping[str, Callable[[Sequence[Reevaluation]], str]] = {
        "text": _text,
        "markdown": _markdown,
        "json": _json,
    }
    return renderers[form](found)


def _json(found: Sequence[Reevaluation]) -> str:
    document = {
        "schema_version": SCHEMA_VERSION,
        "changed": sum(result.changed for result in found),
        "results": [
            {
                "run": result.parent,
                "device": result.device,
                "causes": result.causes,
                "new_run": str(result.run) if result.run else None,
                "changed": result.changed,
                "remarks": result.remarks,
                "error": result.error,
                "comparison": comparison_json(result.comparison) if result.comparison else None,
            }
            for result in found
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _text(found: Sequence[Reevaluation]) -> str:
    lines = [plain(line) for result in found for line in _lines(result)]
    return "\n".join([*lines, _summary(found)]) + "\n"


def _markdown(found: Sequence[Reevaluation]) -> str:
    lines = [f"## advisor: {_summary(found)}", ""]
    for result in found:
        first, *rest = _lines(result)
        lines += [f"- {escaped(first)}", *(f"  - {escaped(line)}" for line in rest)]
    return "\n".join(lines) + "\n"


def _lines(result: Reevaluation) -> list[str]:
    place = f"{result.parent} on {result.device}"
    if result.error:
        return [f"{place}: skipped: {result.error}"]
    if result.comparison is None:
        said = "; ".join(result.causes)
        return [f"{place}: unchanged{f' ({said})' if said else ', nothing changed since the run'}", *result.remarks]
    return [
        f"{place}: {result.comparison.result.value} ({'; '.join(result.causes)})",
        result.comparison.reason,
        *result.remarks,
        *([f"new run: {_typed(result.run)}"] if result.run else []),
    ]


def _typed(path: Path) -> str:
    relative = os.path.relpath(path)
    return relative if not relative.startswith("..") else str(path)


def _summary(found: Sequence[Reevaluation]) -> str:
    changed, failed = sum(result.changed for result in found), sum(bool(result.error) for result in found)
    passed = f", {failed} skipped" if failed else ""
    return f"{plural(len(found), 'answer')}: {changed} changed{passed}"
