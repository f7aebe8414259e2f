"""Readers of text: requests, profiles, catalogues, tables of labels and boxes, with wrong values and broken text."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from advisor.catalog.catalogue import read_catalogue_file
from advisor.datasets.boxes import list_boxes
from advisor.datasets.layouts import list_manifest
from advisor.devices.profiles import read_profile, shipped_profiles
from advisor.devices.profiles.measurements import read_measurements
from advisor.engine.question.values import read_file
from tests.datasets.boxes.writers import WRITERS, photos
from tests.hostile.damages import WHOLE, wrong_types
from tests.hostile.surfaces.ground import Case, Ground

MOST = 150  # Wrong values that are tried in a document
BROKEN = (
    "", "\0", "\ufeff", "\udc80", "a" * 200_000, "\x1b[31m", "{", "[" * 50_000, "&a [*a]", "!!python/name:os.system x",
    "190:20:30", "9" * 5000, "1e400", ".inf", "nan", "../../etc/passwd", "/dev/zero", "\u202e", "{{7*7}}", "'", '"',
    ",", "\r", "\n\n", "\t", "-1", "a: !!timestamp x", "<<: {a: 1}", "? [a]", "%TAG", "---\n---",
)  # fmt: skip
REQUEST = "budget: 50ms\nthreads: [1, 2]\nmax_trials: 9\ntime_limit: 5min\ncandidates: [squeezenet*]\nseed: 1\n"
TABLE = "path,label\na.jpg,cat\nb.jpg,dog\nc.jpg,cat\n"
MEASURED = "target,model,precision,latency_ms,statistic,flag\ncpu,net,int8,12.5,median,\ncpu,net,float32,20,median,\n"


def cases(ground: Ground) -> Iterator[Case]:
    """Yield each document with one line or value changed, and damaged as a whole."""
    for name, (file, text, read) in _documents().items():
        for label, content in _changed(file, text):
            yield f"{name}, {label}", partial(_read, ground, file, content, read)
        for label, damage in WHOLE.items():
            yield f"{name}, {label}", partial(_damaged, ground, file, text, damage, read)
    for form, changed in (
        ("voc", "Annotations/000.xml"),
        ("coco", "annotations/instances.json"),
        ("yolo", "labels/000.txt"),
        ("table", "set.csv"),
    ):
        for number in range(len(BROKEN) * 4):
            yield f"boxes, {form}, {number}", partial(_boxes, ground, form, changed, number)


def _documents() -> Mapping[str, tuple[str, str, Callable[[Path], object]]]:
    profiles = shipped_profiles()
    catalogue = profiles.parent / "catalogs" / "squeezenet.yaml"
    return {
        "request": ("r.yaml", REQUEST, read_file),
        "profile": ("board.yaml", (profiles / "raspberry-pi-4.yaml").read_text(encoding="utf-8"), read_profile),
        "catalogue": ("c.yaml", catalogue.read_text(encoding="utf-8"), read_catalogue_file),
        "labels": ("t.csv", TABLE, list_manifest),
        "measurements": ("m.csv", MEASURED, lambda path: read_measurements(path, ["cpu"])),
    }


def _changed(file: str, text: str) -> Iterator[tuple[str, str]]:
    draw, lines = random.Random(file), text.split("\n")
    for number, broken in enumerate(BROKEN):
        place = draw.randrange(len(lines))
        yield f"text {number} for a line", "\n".join([*lines[:place], broken, *lines[place + 1 :]])
        key, colon, _ = lines[place].partition(":")
        yield f"text {number} as a value", "\n".join([*lines[:place], f"{key}{colon} {broken}", *lines[place + 1 :]])
    if file.endswith(".yaml"):
        given = Path(__file__).with_name(file)  # only its name and text are looked at
        wrong = list(wrong_types(given, text))
        yield from draw.sample(wrong, min(MOST, len(wrong)))


def _read(ground: Ground, file: str, content: str, read: Callable[[Path], object]) -> Sequence[str]:
    return ground.call(read, ground.fresh({file: content}) / file)


def _damaged(
    ground: Ground, file: str, text: str, damage: Callable[[Path], None], read: Callable[[Path], object]
) -> Sequence[str]:
    path = ground.fresh({file: text}) / file
    damage(path)
    return ground.call(read, path)


def _boxes(ground: Ground, form: str, changed: str, number: int) -> Sequence[str]:
    place, draw = ground.fresh(), random.Random(number)
    WRITERS[form](place, photos(2, "cat", "dog"))
    file = place / changed
    text, broken = file.read_text(encoding="utf-8"), BROKEN[number % len(BROKEN)]
    start = draw.randrange(len(text))
    content = text[:start] + broken + text[start + draw.randrange(12) :]
    file.write_bytes(content.encode("utf-8", "surrogateescape"))
    return ground.call(list_boxes, file if form == "table" else place)
