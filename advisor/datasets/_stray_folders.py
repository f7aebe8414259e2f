"""Tell which folders beside classes are probably none: copies, backups, new folders, days, pieces.

``_folders.py`` asks the user about such a folder with images, and leaves out an empty one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from itertools import chain

from advisor.datasets._parts import NEUTRAL_WORDS, split_words

_COPY = (
    r"copy|kopie|copia|cópia|copie|kopia|kopi|kopya|копия|копія|副本|拷贝|複製|コピー|복사본|another"
    r" copy|\d+\w\w copy|"
    r"backup|bak|old|orig|augmented|aug|shortcut|alias|verknüpfung"
)
_NUMBER = r"(?:\s*\(?\d+\)?)?"
_COPY_FORMS = tuple(
    re.compile(form)
    for form in (
        rf"(?P<base>.+?)[\s._–—-]+(?:{_COPY}){_NUMBER}",  # dog - Copy (2), dog copy 2, dog_backup
        rf"(?P<base>.+?)\s*\((?:{_COPY}|\d+)\)",  # dog (1), dog (copy)
        r"(?P<base>.+?)の?コピー",
        r"(?P<base>.+)~",
        (
            r"(?:copy of|kopie von|kopie van|copie de|copia de|copia di|cópia"
            rf" de|kopia|копия){_NUMBER}\s+(?P<base>.+)"
        ),
    )
)
"""Patterns of the names, in small letters, that systems and people give to the copy of a
folder.
"""

_UNSORTED = """
new folder, untitled folder, untitled, neuer ordner, nouveau dossier, nueva carpeta, carpeta nueva,
nuova cartella, nova pasta, nieuwe map, ny mapp, nowy folder, yeni klasör, новая папка, 新建文件夹,
新增資料夾, 未命名文件夹, 新しいフォルダー, 名称未設定フォルダ, 새 폴더,
thumbs, thumbnail, thumbnails, backup, backups, bak, tmp,
temp, to delete, recycle bin, runs, checkpoints, lightning_logs, wandb, mlruns
"""
UNSORTED_NAMES = frozenset(" ".join(name.split()) for name in _UNSORTED.split(","))
"""Names of folders that hold what nobody sorted, in small letters:
systems and trainings make them.
"""

_DOUBTFUL = """
old, misc, deleted, screenshots, results, result, output, outputs, logs, plots, figures, models,
weights, scripts, docs, notebooks
"""
DOUBTFUL_NAMES = frozenset(" ".join(name.split()) for name in _DOUBTFUL.split(","))
"""Names that a class may have, and a folder of other things too."""

_PIECES = (
    "batch batches chunk shard fold volume vol disk disc archive zip tar page pages roll card"
    " session"
)
PIECE_WORDS = frozenset(_PIECES.split()) | NEUTRAL_WORDS
"""Words before the number of a folder that is a piece of a set,
such as ``images_001`` and ``batch 2``.
"""

# 100APPLE: three digits and five characters (DCF, JEITA CP-3461).
_CAMERA = re.compile(r"[1-9]\d\d[A-Z0-9_]{5}")
_MONTH = r"(?:19|20)\d\d{0}(?:0[1-9]|1[0-2])"
_DAY = r"(?:0[1-9]|[12]\d|3[01])"
_DAYS = tuple(re.compile(_MONTH.format(mark) + mark + _DAY) for mark in ("", "-", "_", r"\."))

# Other folders beside one with such a name: of two folders, each may be a class.
FEWEST_CLASSES = 2
# From this share of images on that lie beside their folder too, the folder repeats them.
REPEATED = 0.9

_COUNTER = re.compile(r"[\s_-]*\(?\d+\)?$")


def find_stray_folders(names: Collection[str]) -> Mapping[str, str]:
    """Return the folders that are probably no classes, each with the reason in words."""
    plain = {name: _normalise_name(name) for name in names}
    known = set(plain.values())
    strays = {}
    for name in sorted(names):
        base = _find_original(plain[name], known)
        if base:
            original = next(other for other, text in plain.items() if text == base)
            strays[name] = f"it is named as a copy of '{original}'"
        # Of two folders, one is kept whatever its name is:
        # with one class there is nothing to learn.
        elif _without_number(plain[name]) in UNSORTED_NAMES and len(names) > FEWEST_CLASSES:
            strays[name] = "its name says nothing about a class"
    return strays


def explain_pieces(names: Collection[str]) -> str:
    """Return why folders are pieces of a set and no classes; empty if they may be classes."""
    if len(names) < FEWEST_CLASSES:
        return ""
    if all(map(_CAMERA.fullmatch, names)):
        return "cameras name folders so"
    if any(all(map(form.fullmatch, names)) for form in _DAYS):
        return "their names are days"
    word_lists = set(map(split_words, names))
    are_numbered = all(any(map(str.isdecimal, name)) for name in names)
    if len(word_lists) > 1 or not are_numbered:
        return ""
    words = word_lists.pop()
    if words and words[-1] in PIECE_WORDS:
        return "their names differ by a number alone, as pieces of a set do"
    return ""


def find_unsorted_folders(images: Sequence[tuple[str, ...]]) -> set[str]:
    """Return the names of folders inside those of classes that hold what nobody sorted."""
    inside = set(chain.from_iterable(names[1:-1] for names in images))
    return {name for name in inside if _without_number(_normalise_name(name)) in UNSORTED_NAMES}


def find_doubtful_folders(names: Collection[str]) -> Sequence[str]:
    """Return the folders that may be classes, and whose names other folders have too."""
    if len(names) <= FEWEST_CLASSES:
        return []
    doubtful = []
    for name in names:
        if _without_number(_normalise_name(name)) in DOUBTFUL_NAMES:
            doubtful.append(name)
    return sorted(doubtful)


def find_repeating_folders(images: Sequence[tuple[str, ...]]) -> tuple[set[str], set[str]]:
    """Return upper folders that repeat the images beside them, and those with equal folders alone.

    Some archives have a whole set twice:
    ``cat/1.jpg``, ``dog/1.jpg``, ``animals/cat/1.jpg`` and ``animals/dog/1.jpg``.

    Args:
        images: the names of the folders that each image is in, then its own.
    """
    tops = {names[0] for names in images if len(names) > 1}
    inside: dict[str, list[tuple[str, ...]]] = {}
    for names in images:
        if len(names) > 2 and names[1] in tops:
            inside.setdefault(names[0], []).append(names)
    if not inside:
        return set(), set()
    counts = dict.fromkeys(inside, 0)
    inner: dict[str, set[str]] = {}
    for names in images:
        if names[0] in counts:
            counts[names[0]] += 1
            second = names[1] if len(names) > 2 else ""
            inner.setdefault(names[0], set()).add(second)
    all_images = set(images)
    equal: set[str] = set()
    alike: set[str] = set()
    for top, below in inside.items():
        repeated = sum(names[1:] in all_images for names in below)
        others = tops - {top}
        if repeated >= REPEATED * counts[top]:
            equal.add(top)
        elif inner[top] <= others:
            alike.add(top)
    return equal, alike


def _normalise_name(name: str) -> str:
    return " ".join(unicodedata.normalize("NFC", name).split()).casefold()


def _without_number(name: str) -> str:
    return _COUNTER.sub("", name.strip(" _."))


def _find_original(name: str, others: Collection[str]) -> str:
    """Return the name among ``others`` of which a name is a copy; empty if there is none."""
    for form in _COPY_FORMS:
        match = form.fullmatch(name)
        base = match["base"].strip() if match else ""
        if base and base in others:
            return base
        # The folder may be a copy of a copy.
        original = _find_original(base, others) if base else ""
        if original:
            return original
    return ""
