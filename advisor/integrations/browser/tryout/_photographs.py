"""Photographs that a person keeps with their class, as images of the next search.

``_app.py`` calls :meth:`Keeper.keep` for each one. The manifest :data:`MANIFEST` with
:data:`COLUMNS` is a data set that ``advisor update`` reads, and a later start goes on in the same
folder: both stay.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
import shlex
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from advisor.core import Interval, UsageError, listed
from advisor.integrations.browser.tryout._timings import shorten_name
from advisor.integrations.browser.tryout._trial import RunPage
from advisor.isolation import Scratch
from advisor.store import write_atomically

MANIFEST = "photographs.csv"
COLUMNS = ("path", "label", "group")
SIDE = 1600
"""Longer side of a kept photograph in pixels: networks for phones read at most a third of it."""

MOST = 2000
"""Photographs that one folder holds."""

SHOWN_CLASSES = 5
_UNSAFE = re.compile(r"[^\w .()+-]+")


@dataclass
class Keeper:
    """Keeps photographs as ``DIR/class/time-hash.jpg``, and lists them in a manifest.

    Photographs that one phone took in the same minute are one group: they show the same thing.
    """

    folder: Path  #: the folder of ``--keep``
    page: RunPage  #: the run
    tell: Callable[[str], None]  #: is called with a line about each photograph
    #: label and group of each kept photograph by path
    rows: dict[str, tuple[str, str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, folder: Path, page: RunPage, tell: Callable[[str], None]) -> Keeper:
        """Return what keeps photographs in a folder.

        Raises:
            UsageError: it is no folder, or holds other files.
        """
        manifest = folder / MANIFEST
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise UsageError(f"--keep: '{folder}' is no folder", "name a new one")
        if folder.exists() and any(folder.iterdir()) and not manifest.is_file():
            raise UsageError(
                f"--keep: '{folder}' holds other files",
                "name a new folder, or one of an earlier --keep",
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"--keep: '{folder}' cannot be made ({error.strerror})", "name another folder"
            ) from None
        keeper = cls(folder, page, tell)
        if manifest.is_file():
            keeper.rows.update(_read_rows(folder))
        return keeper

    def keep(self, content: bytes, label: str, device: str) -> str:
        """Keep a photograph of a class, and return what was done, in words.

        Raises:
            UsageError: it is no image, the run has no such class, or the folder is full.
        """
        from advisor.datasets import read_thumbnail

        if label not in self.page.classes:
            known = listed(self.page.classes, SHOWN_CLASSES)
            raise UsageError(f"the run has no class '{shorten_name(label)}'", f"it has: {known}")
        with self._lock:
            if len(self.rows) >= MOST:
                raise UsageError(
                    f"the folder holds {MOST} photographs",
                    "search with them, and keep others elsewhere",
                )
            with Scratch() as scratch:
                file = scratch / "photograph"
                file.write_bytes(content)
                # A child process decodes it and encodes it again: whatever else the file holds,
                # such as the place where it was taken, or a page behind the image, is gone.
                pixels = read_thumbnail(file, SIDE)
            if not pixels:
                raise UsageError("the photograph cannot be read", "give a JPEG, PNG or WebP file")
            digest = hashlib.sha256(pixels).hexdigest()[:12]
            known_path = next((path for path in self.rows if path.endswith(f"-{digest}.jpg")), "")
            if known_path:
                raise UsageError(
                    f"this photograph is kept as '{self.rows[known_path][0]}' already",
                    "take another one",
                )
            now = datetime.now(UTC)
            path = f"{self._folders[label]}/{now:%Y%m%d-%H%M%S}-{digest}.jpg"
            target = self.folder / path
            target.parent.mkdir(exist_ok=True)
            # Before the manifest, whose rows must name files that exist.
            write_atomically(target, pixels)
            self.rows[path] = (label, f"{shorten_name(device) or 'a phone'} {now:%Y-%m-%d %H:%M}")
            self._write_manifest()
        count = sum(row[0] == label for row in self.rows.values())
        self.tell(f"{target}: {label}")
        return f"Kept as '{label}': photograph {count} of this class."

    @cached_property
    def _folders(self) -> dict[str, str]:
        """Folder of each class; the manifest has its name, whatever signs that has."""
        folders: dict[str, str] = {}
        for number, label in enumerate(self.page.classes):
            # A class may be called "..", and a folder of this name would be outside
            # of the user's folder.
            name = _UNSAFE.sub("_", label).strip(". ") or "class"
            # Two classes can become one name,
            # so each name that was changed gets the number of its class.
            is_changed = name != label or name in folders.values()
            folders[label] = f"{name} {number}" if is_changed else name
        return folders

    def _write_manifest(self) -> None:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows((path, *row) for path, row in self.rows.items())
        write_atomically(self.folder / MANIFEST, text.getvalue().encode())

    @property
    def command(self) -> str:
        """The command that learns from these photographs, too, and says whether that helps;
        empty without any.
        """
        if not self.rows:
            return ""
        run = str(self.page.run.folder.path)
        return shlex.join(("advisor", "update", run, "--data", str(self.folder / MANIFEST)))


def _read_rows(folder: Path) -> dict[str, tuple[str, str]]:
    """Return label and group of the photographs in a folder by their paths."""
    with (folder / MANIFEST).open(encoding="utf-8", newline="") as file:
        # A person may have edited it.
        rows = [row for row in csv.reader(file) if len(row) == len(COLUMNS)]
    return {path: (label, group) for path, label, group in rows[1:]}


@dataclass(frozen=True)
class WeakClass:
    """Counts of one class in a run."""

    label: str  #: the class
    right: int  #: images of it that are answered rightly
    images: int  #: all images of it


def list_weak_classes(page: RunPage) -> list[WeakClass]:
    """Return the classes with known counts, those that are answered worst first."""
    evaluation = page.forms[0].evaluation
    answers = evaluation.holdout_answers or evaluation.answers
    counts = answers.confusion or ()
    classes = []
    for place, (label, row) in enumerate(zip(page.classes, counts, strict=False)):
        images = sum(row)
        # A damaged run may state impossible counts.
        if images > 0 and 0 <= row[place] <= images:
            classes.append(WeakClass(label, row[place], images))
    return sorted(classes, key=lambda weak: (weak.right / weak.images, weak.images))


def describe_weakness(page: RunPage, keeper: Keeper) -> str:
    """Return which class to photograph first, in words; empty if the run does not tell."""
    weak = list_weak_classes(page)
    if not weak:
        return ""
    first = weak[0]
    share = Interval.wilson(first.right, first.images)
    count = sum(label == first.label for label, _ in keeper.rows.values())
    counted = (
        f"{first.right} of {first.images} right ({100 * share.low:.0f} to"
        f" {100 * share.high:.0f} %)"
    )
    # Each part of the split gets its share of new photographs,
    # and four times as many images halve an interval.
    more = 3 * int(page.run.dataset.get("pictures_per_class", {}).get(first.label, 0))
    wanted = f"{more} more photographs of it would halve this range; " if more else ""
    return f"Photograph '{first.label}' first: {counted}; {wanted}{count} kept so far."
