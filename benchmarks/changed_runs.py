"""Changes to the meaning of a finished run, all of them valid JSON: what a person or a bad disk could leave.

``relinked`` is what an attacker does who also computes every hash of the folder again, those of artefacts included.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from advisor.core import AdvisorError, Evaluation, Status
from advisor.engine import find_contradictions
from advisor.reporting import RunView, recommendation
from advisor.store import SEAL, Problem, RunFolder
from advisor.store._run_folder import REPORTS
from advisor.store._run_seal import with_hash

Rows = list[dict[str, Any]]
Change = Callable[[Path], None]  # Changes the run folder at a path

LINES, MANIFEST, REQUEST = "evaluations.jsonl", "manifest.json", "request.yaml"
DETECTED, RECOMPUTED, NO_EFFECT, BELIEVED = "detected", "by doctor", "without effect", "believed"


def read_rows(run: Path) -> Rows:
    return [json.loads(line) for line in (run / LINES).read_text(encoding="utf-8").splitlines()]


def write_rows(run: Path, rows: Rows) -> None:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (run / LINES).write_text(text, encoding="utf-8")


def finished_copy(run: Path, to: Path) -> Path:
    """Copy a finished run, and add a configuration that was skipped as the search would have done."""
    shutil.copytree(run, to)
    folder = RunFolder.open(to)
    first, *_ = folder.evaluations()
    configuration = replace(first.configuration, compression="pruned_50")
    folder.append(Evaluation(configuration, Status.SKIPPED, first.family, "not started", "stop"))
    reports = [path.name for path in to.iterdir() if path.name.startswith(REPORTS)]
    count = len(folder.evaluations())
    folder.write_json(MANIFEST, {**folder.read_json(MANIFEST), "configurations": count})
    folder.reseal(*reports)
    return to


def relinked(run: Path) -> None:
    """Compute every hash of a run again."""
    rows, last = read_rows(run), ""
    for row in rows:
        row.pop("hash", None)
        row["before"] = last
        last = row["hash"] = sha256(json.dumps(row, ensure_ascii=False).encode()).hexdigest()
    write_rows(run, rows)
    manifest = json.loads((run / MANIFEST).read_text())
    if seal := manifest.get(SEAL):
        seal |= {"lines": len(rows), "head": last}
        present = [name for name in seal["files"] if (run / name).is_file()]
        seal["files"] = {name: sha256((run / name).read_bytes()).hexdigest() for name in present}
        (run / MANIFEST).write_text(json.dumps(with_hash(manifest)))


def _pick(run: Path, rows: Rows) -> dict[str, Any]:
    key = json.loads((run / "recommendation.json").read_text())["pick"]["key"]
    return next(row for row in reversed(rows) if row["key"] == key)


def _in_pick(change: Callable[[dict[str, Any]], None]) -> Change:
    def made(run: Path) -> None:
        rows = read_rows(run)
        change(_pick(run, rows))
        write_rows(run, rows)

    return made


def _in_rows(change: Callable[[Rows], Rows | None]) -> Change:
    def made(run: Path) -> None:
        rows = read_rows(run)
        write_rows(run, change(rows) or rows)

    return made


def _set(path: str, value: object) -> Change:
    """Put a value, or a function of the one that is there, into the pick's row."""

    def change(row: dict[str, Any]) -> None:
        *steps, last = path.split(".")
        for step in steps:
            row = row[step]
        row[last] = value(row.get(last)) if callable(value) else value

    return _in_pick(change)


def _scaled(figure: str, factor: float, interval: bool = True) -> Change:
    def change(row: dict[str, Any]) -> None:
        ends = ("value", "low", "high") if interval else ("value",)
        row[figure] |= {end: row[figure][end] * factor for end in ends if row[figure].get(end) is not None}

    return _in_pick(change)


def _both(*changes: Change) -> Change:
    def made(run: Path) -> None:
        for change in changes:
            change(run)

    return made


def _ok(rows: Rows) -> Rows:
    return [row for row in rows if row["status"] == "ok"]


def _document(name: str, change: Callable[[Any], object]) -> Change:
    def made(run: Path) -> None:
        read, write = (yaml.safe_load, yaml.safe_dump) if name.endswith(".yaml") else (json.loads, json.dumps)
        document = read((run / name).read_text(encoding="utf-8"))
        change(document)
        (run / name).write_text(write(document), encoding="utf-8")

    return made


def _answers(part: str, change: Callable[[Any], Any]) -> Change:
    """Change the kept answers of the pick: ``answers`` on validation, ``holdout`` on the hold-out."""

    def made(run: Path) -> None:
        details = _pick(run, read_rows(run))["details"]
        file = run / (details["answers"] if part == "answers" else details["holdout"]["answers"])
        np.save(file, change(np.load(file)))

    return made


def _artefact(change: Callable[[bytes], bytes], and_hash: bool = False) -> Change:
    def made(run: Path) -> None:
        rows = read_rows(run)
        pick = _pick(run, rows)
        file = run / pick["artefact"]
        content = change(file.read_bytes())
        file.unlink()  # it is linked to the cache
        file.write_bytes(content)
        if and_hash:
            for row in rows:
                if row["artefact"] == pick["artefact"]:
                    row["artefact_sha256"] = sha256(content).hexdigest()
            write_rows(run, rows)

    return made


def _flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes(255 - byte for byte in content[middle : middle + 64]) + content[middle + 64 :]


def _other_artefact(run: Path) -> None:
    """Put the file of another form in the place of the pick's."""
    rows = read_rows(run)
    pick = _pick(run, rows)
    other = next(row["artefact"] for row in _ok(rows) if row["artefact"] != pick["artefact"])
    (run / pick["artefact"]).unlink()
    shutil.copy(run / other, run / pick["artefact"])


def _swapped(figure: str) -> Change:
    """Give the pick the figure of another file, and that file the pick's."""

    def made(run: Path) -> None:
        rows = read_rows(run)
        pick = _pick(run, rows)
        other = next(row for row in reversed(_ok(rows)) if row["artefact"] != pick["artefact"])
        pick[figure], other[figure] = other[figure], pick[figure]
        write_rows(run, rows)

    return made


def _made_ok(row: dict[str, Any], like: dict[str, Any]) -> None:
    row |= {name: value for name, value in like.items() if name not in ("configuration", "key", "family")}


def _first_skipped_is_ok(rows: Rows) -> None:
    _made_ok(next(row for row in rows if row["status"] == "skipped"), _ok(rows)[-1])


def _renamed(row: dict[str, Any]) -> None:
    row["key"] = row["key"].replace(row["configuration"]["card"], "efficientnet_b7_600")
    row["configuration"]["card"] = "efficientnet_b7_600"


def _threads(row: dict[str, Any]) -> None:
    row["configuration"]["target"]["threads"] = 8
    row["key"] = row["key"].rpartition("x")[0] + "x8"


def _older_pick(run: Path) -> None:
    """Repeat the first row of the pick's configuration at the end, with a better accuracy."""
    rows = read_rows(run)
    first = json.loads(json.dumps(next(row for row in rows if row["key"] == _pick(run, rows)["key"])))
    first["accuracy"] |= {"value": 99.0, "low": 98.0, "high": 99.5}
    write_rows(run, [*rows, first])


def _confused(row: dict[str, Any]) -> None:
    counts = row["details"]["confusion"]
    counts[0][0], counts[0][-1] = counts[0][-1], counts[0][0]


CHANGES: Mapping[str, Change] = {
    "accuracy x 1.6 with its interval": _scaled("accuracy", 1.6),
    "accuracy x 1.05 with its interval": _scaled("accuracy", 1.05),
    "accuracy alone 99 %": _set("accuracy.value", 99.0),
    "accuracy of the hold-out 99 %": _set("holdout_accuracy.value", 99.0),
    "accuracy of the hold-out removed": _set("holdout_accuracy", None),
    "accuracies of two files swapped": _swapped("accuracy"),
    "accuracy in points": _set("accuracy.unit", "points"),
    "drop made 0": _set("drop", {"value": 0.0, "unit": "points", "provenance": "measured", "low": 0.0, "high": 0.0}),
    "latency / 10": _both(_scaled("latency", 0.1), _scaled("latency_p90", 0.1)),
    "unit us with values in ms": _both(_set("latency.unit", "us"), _set("latency_p90.unit", "us")),
    "p90 removed": _set("latency_p90", None),
    "median alone / 2": _set("latency.value", lambda ms: ms / 2),
    "latencies of two files swapped": _swapped("latency"),
    "shortest run above the median": _set("details.wall_ms.min", lambda ms: ms * 100),
    "contended made quiet": _both(_set("contended", False), _set("details.verdict", "stable")),
    "timed today": _set("details.measured_at", "2036-01-01T00:00:00+00:00"),
    "size / 2": _scaled("size", 0.5),
    "size 0": _set("size.value", 0),
    "size in kilobytes": _set("size.unit", "kB"),
    "memory / 10": _scaled("memory", 0.1),
    "confusion matrix of other counts": _in_pick(_confused),
    "licence made free": _set("details.licence", "CC0-1.0"),
    "card and key renamed": _in_pick(_renamed),
    "compression renamed": _set("configuration.compression", "int8"),
    "threads 8 in target and key": _in_pick(_threads),
    "a skipped row made ok": _in_rows(
        lambda rows: next(r for r in rows if r["status"] == "skipped").update(status="ok")
    ),
    "a skipped row made ok with figures": _in_rows(_first_skipped_is_ok),
    "the pick made failed": _both(_set("status", "failed"), _set("reason", "it crashed")),
    "half of the rows gone": _in_rows(lambda rows: rows[: len(rows) // 2]),
    "last row gone": _in_rows(lambda rows: rows[:-1]),
    "an older row repeated with 99 %": _older_pick,
    "artefact of the pick changed": _artefact(_flipped),
    "artefact and hash changed": _artefact(_flipped, and_hash=True),
    "artefact of another form in its place": _other_artefact,
    "answers zeroed": _answers("answers", np.zeros_like),
    "answers shuffled": _answers("answers", lambda labels: np.random.default_rng(0).permutation(labels)),
    "answers to the hold-out zeroed": _answers("holdout", np.zeros_like),
    "classes of the split in another order": _document("split.json", lambda split: split["classes"].reverse()),
    "half of the validation images": _document(
        "split.json", lambda split: split.update(validation=split["validation"][::2])
    ),
    "fewer images of the hold-out": _document("dataset.json", lambda data: data.update(holdout=1)),
    "budget of the request": _document(REQUEST, lambda asked: asked.update(budget="0.1ms")),
    "images of the request": _document(REQUEST, lambda asked: asked.update(data="elsewhere")),
    "host of the manifest": _document(MANIFEST, lambda manifest: manifest["host"].update(cpu="Apple M9")),
    "configurations of the manifest": _document(MANIFEST, lambda manifest: manifest.update(configurations=1)),
    "reason of the end": _document(MANIFEST, lambda manifest: manifest.update(stopped={"why": "complete", "text": ""})),
    "pick of the answer": _document(
        "recommendation.json", lambda answer: answer["pick"]["accuracy"].update(value=99.0, high=99.9)
    ),
    "report with another figure": lambda run: _replaced(run / "report.html", "%", "9 %"),
    "likely wrong labels added": lambda run: (
        (run / "labels.json").write_text(json.dumps({"schema_version": 1, "card": "x", "images": 9, "found": []}))
        and None
    ),
}
"""The changes by their names."""


def _replaced(file: Path, old: str, new: str) -> None:
    file.write_text(file.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")


@dataclass(frozen=True)
class Judged:
    """The result of a change."""

    run: Path  # the changed copy
    word: str  # DETECTED, RECOMPUTED (by ``advisor doctor`` alone), NO_EFFECT or BELIEVED
    said: tuple[str, ...] = ()  # what does not fit


def nothing(_run: Path) -> None:
    """Change nothing: what is said of such a run would be said of every change."""


def judged(kind: str, run: Path, folder: Path, relink: bool = False) -> Judged:
    """Change a copy of a run in ``folder``, and say whether reading it, ``advisor doctor`` or nothing tells."""
    copied = folder / run.name
    shutil.rmtree(copied, ignore_errors=True)
    shutil.copytree(run, copied, symlinks=True)
    before = answer(copied)
    CHANGES.get(kind, nothing)(copied)
    if relink:
        relinked(copied)
    opened = RunFolder.open(copied)
    if said := [str(problem) for problem in Problem.list_in_run(opened) if not problem.is_old]:
        return Judged(copied, DETECTED, tuple(said))
    try:
        after = answer(copied)
    except AdvisorError as error:
        return Judged(copied, DETECTED, (error.message,))
    if said := [str(problem) for problem in find_contradictions(opened)]:
        return Judged(copied, RECOMPUTED, tuple(said))
    return Judged(copied, NO_EFFECT if after == before else BELIEVED)


def answer(run: Path) -> dict[str, Any]:
    """Return what ``advisor report --json`` prints of a run, without its remarks."""
    document = recommendation(RunView.load(RunFolder.open(run)))
    return {name: value for name, value in document.items() if name != "remarks"}
