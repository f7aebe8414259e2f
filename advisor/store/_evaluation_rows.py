"""Write and read the lines of ``evaluations.jsonl``; each has a hash of all lines before it.

``RunFolder`` appends a line for each evaluation. The form of a line and its hash is that of runs
on the disks of users: a line of an older version must stay valid.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.core import Evaluation, broken_rule
from advisor.store._jsonfile import MAX_BYTES, parse_json
from advisor.store._yamlfile import read_text


@dataclass(frozen=True)
class Row:
    """One line of the evaluations."""

    number: int  # of the line, from 1
    evaluation: Evaluation | None = None  # None if it is left out
    hash: str = ""  # what it states as its hash; empty in a run of an older version
    key: str = ""  # its configuration; empty if the line is incomplete or damaged
    fault: str = ""  # what does not fit


def chain_lines(evaluations: Iterable[Evaluation], last: str = "") -> tuple[str, str]:
    """Return the lines of evaluations and the hash of the last one.

    Each line has the hash of the line ``before`` it,
    and at its end the SHA-256 of its own text without this ``hash``.
    """
    lines = []
    for evaluation in evaluations:
        text = json.dumps({**evaluation.to_json(), "before": last}, ensure_ascii=False)
        last = hashlib.sha256(text.encode()).hexdigest()
        lines.append(f'{text[:-1]}, "hash": "{last}"}}\n')
    return "".join(lines), last


def read_rows(file: Path) -> list[Row]:
    """Return the lines of a file that are not empty, each with what does not fit."""
    rows = list[Row]()
    last = ""
    text = read_text(file, MAX_BYTES, errors="replace") if file.is_file() else ""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            rows.append(_read_row(number, line, last))
            last = rows[-1].hash or last
    return rows


def _read_row(number: int, line: str, last: str) -> Row:
    """Return one line as a row; ``last`` is the hash of the last line before it that has one."""
    try:
        values: Any = parse_json(line)
        own_hash = str(values.get("hash", ""))
        before = str(values.get("before", ""))
        evaluation = Evaluation.from_json(values)
    except (ValueError, KeyError, TypeError, AttributeError):
        return Row(number)
    text = line.rstrip().removesuffix(f', "hash": "{own_hash}"}}') + "}"
    fault = ""
    if own_hash and hashlib.sha256(text.encode()).hexdigest() != own_hash:
        fault = "has changed since it was written"
    elif last and not own_hash:
        fault = "has no hash, as the lines before it have"
    else:
        rule = broken_rule(evaluation, values.get("key"))
        if rule:
            fault = f"breaks the rule that {rule}"
        elif own_hash and before != last:
            # The line itself is whole, so its figures still count.
            moved = "does not follow the line before it: a line was removed, added or moved"
            return Row(number, evaluation, own_hash, evaluation.configuration.key, moved)
    key = evaluation.configuration.key
    if fault:
        return Row(number, None, own_hash, key, f"{fault}: left out")
    return Row(number, evaluation, own_hash, key)


def list_model_files(evaluation: Evaluation) -> tuple[tuple[str, str], ...]:
    """Return path and hash of each model file that an evaluation names."""
    files = []
    if evaluation.artefact:
        files.append((evaluation.artefact, evaluation.artefact_sha256))
    for variant in (evaluation.unknown, evaluation.on_all):
        if variant is not None and variant.file:
            files.append((variant.file, variant.sha256))
    return tuple(files)
