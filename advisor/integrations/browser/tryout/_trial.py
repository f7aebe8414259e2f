"""What the page of a run shows: its files, the runtime, and images that the pick gets wrong.

``_command.py`` makes one :class:`RunPage`, and ``_app.py`` sends its parts. Scripts read the facts
of the page, so their keys are those in ``page.js`` and ``tryout.js``.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from advisor.core import UsageError, show_bytes
from advisor.engine import LoadedRun
from advisor.integrations.browser import LITERT, fetch_package
from advisor.integrations.browser.agent import WARM_MS, WARM_RUNS
from advisor.integrations.browser.web import facts_of, remark_of, render_page
from advisor.isolation import agent
from advisor.reporting import ExportedModel, forms_of

SAMPLES = 6
"""Images of the hold-out that the page shows."""

SMALL_SIDE = 160
SIDE = 800
"""Longer side of an image in the gallery, and of one that the files answer, in pixels."""

EFFORT = "search"
"""Effort of timing each file: that of a search, because a person waits for it."""

MOST_THREADS = 4

LONGEST_MS = 60_000.0
"""A run, the loading of a file, or a block that takes longer is none that a person waited for."""

PACKING = 6
"""Level of gzip of the runtime: 0.4 % larger than at level 9, in two thirds of the time."""

KINDS = {
    ".js": "text/javascript",
    ".wasm": "application/wasm",
    ".tflite": "application/octet-stream",
}
SCRIPTS = ("calls.js", "worker.js", "litert.js", "onnxruntime.js", "webgpu.js")
"""Scripts of the browser runtime that time a file."""


@dataclass(frozen=True)
class Asset:
    """One file that the page loads."""

    content: bytes = field(repr=False)
    kind: str  #: media type
    packed: bool = False  #: the content is gzip


@dataclass(frozen=True)
class Sample:
    """One image of the hold-out on which the pick errs."""

    path: Path  #: where it is
    sha256: str  #: hash of the file
    said: str  #: what was answered, in words


@dataclass(frozen=True)
class RunPage:
    """The page of one run."""

    run: LoadedRun  #: the run
    forms: tuple[ExportedModel, ...]  #: the files that answer, the pick first
    keeps: bool = False  #: photographs can be kept

    @classmethod
    def of(cls, run: Path | str, keeps: bool = False) -> RunPage:
        """Return the page of a run.

        Raises:
            UsageError: it has no file, its task has no page, or the runtime is missing.
        """
        loaded = LoadedRun.load(run)
        pick = loaded.decision.pick
        if pick is None:
            raise UsageError(
                "the run has no candidate with a file",
                "wait for its first answer, or search again",
            )
        first = ExportedModel.of_evaluation(loaded, pick, False)
        if not first.shipping.page.script:
            raise UsageError(
                f"there is no page that {first.shipping.does}",
                "advisor predict answers photographs",
            )
        if keeps and not loaded.question.of_task.probabilities:
            raise UsageError(
                "--keep: a photograph of this task needs more than a class, such as boxes or a"
                " mask",
                "leave --keep out, and mark your photographs with a tool for annotations",
            )
        # Fetched now, so that a missing runtime is an error of the command and not of the page.
        fetch_package(LITERT)
        models = [first]
        for evaluation in forms_of(loaded.evaluations, pick):
            if evaluation.artefact != pick.artefact:
                models.append(ExportedModel.of_evaluation(loaded, evaluation, False))
        return cls(loaded, tuple(models), keeps)

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of the files."""
        return self.forms[0].model.labels

    def page(self, weak: str = "", first: str = "") -> bytes:
        """Return the page; ``weak`` says what the run is weakest in, and ``first`` is the class
        to photograph first.
        """
        pick = self.forms[0]
        effort = agent.map_efforts()[EFFORT]
        protocol = {
            "runs": effort.runs,
            "least_ms": 1e3 * effort.min_seconds,
            "most_ms": 1e3 * effort.max_seconds,
            "blocks": effort.blocks,
            "pause_ms": 1e3 * effort.pause_seconds,
            "warm": {"runs": WARM_RUNS, "least_ms": WARM_MS[0], "most_ms": WARM_MS[1]},
            "most_threads": MOST_THREADS,
            "longest_ms": LONGEST_MS,
        }
        facts = {
            "forms": list(map(self._facts_of, range(len(self.forms)))),
            "protocol": protocol,
            "keeps": self.keeps,
            "weak": weak,
            "classes": sorted(self.classes, key=lambda label: label != first),
        }
        extra = [_read_script("calls.js"), _read_script("tryout/tryout.js")]
        remark = remark_of(pick.evaluation)
        page = render_page(facts, pick.shipping.page, len(self.classes), remark, extra)
        return page.encode()

    def _facts_of(self, place: int) -> dict[str, Any]:
        exported = self.forms[place]
        return {
            **facts_of(exported.model, exported.shipping.page),
            "name": exported.evaluation.configuration.compression,
            "picked": place == 0,
            "file": f"files/{place}.tflite",
            # The file that ships may have one more step;
            # the figures are those of the file that was measured.
            "measured": (
                f"measured/{place}.tflite" if exported.model.edits else f"files/{place}.tflite"
            ),
            "shown_size": show_bytes(len(exported.model.content)),
        }

    def asset(self, name: str) -> Asset | None:
        """Return a file that the page loads by its name; None if there is none."""
        folder, _, file = name.partition("/")
        stem = file.removesuffix(".tflite")
        numbers = list(map(str, range(len(self.forms))))
        if folder in ("files", "measured") and stem in numbers:
            exported = self.forms[numbers.index(stem)]
            content = exported.model.content if folder == "files" else exported.artefact
            return Asset(content, KINDS[".tflite"])
        if name in SCRIPTS:
            return Asset(_read_script(name).encode(), KINDS[".js"])
        # Only names of a list are read, so no address leads out of the folder of the runtime.
        members = {member.name for member in LITERT.members}
        return _read_runtime(fetch_package(LITERT) / name) if name in members else None

    def samples(self) -> Iterator[Sample]:
        """Yield images of the hold-out on which the pick errs, the most frequent confusions or
        most errors first.
        """
        answers = self.forms[0].evaluation.holdout_answers
        folder = self.run.images_folder
        if answers is None:
            return
        labels = self.classes
        if answers.confidence:
            for mistake in answers.confidence.varied_mistakes:
                # A damaged run can count classes that it does not name.
                if max(mistake.label, mistake.answer) >= len(labels):
                    continue
                said = f"{labels[mistake.label]} taken for {labels[mistake.answer]}"
                yield Sample(folder / mistake.path, mistake.sha256, said)
        names = dict(enumerate(labels))
        for image in answers.boxes.worst if answers.boxes else ():
            if image.f1 < 1:
                said = image.describe(lambda label: names.get(label, f"class {label}"))
                yield Sample(folder / image.path, image.sha256, said)
        for overlaid in answers.overlays.mistaken if answers.overlays else ():
            yield Sample(folder / overlaid.path, overlaid.sha256, overlaid.result)

    def shown_samples(self) -> list[tuple[Sample, bytes]]:
        """Return the images of the gallery that can still be read,
        each as a JPEG for the files to answer.
        """
        from advisor.datasets import read_thumbnail

        shown: list[tuple[Sample, bytes]] = []
        for sample in self.samples():
            # Decoded and encoded again by a child process:
            # only pixels of a user's file reach the page.
            content = read_thumbnail(sample.path, SIDE, sample.sha256)
            if content:
                shown.append((sample, content))
            if len(shown) == SAMPLES:
                break
        return shown


@cache
def _read_script(name: str) -> str:
    return (resources.files("advisor.integrations.browser") / name).read_text(encoding="utf-8")


@cache  # packing takes half a second
def _read_runtime(file: Path) -> Asset:
    # Without the time of packing, equal files give equal bytes.
    packed = gzip.compress(file.read_bytes(), PACKING, mtime=0)
    return Asset(packed, KINDS[file.suffix], packed=True)
