"""Ways to damage a document of a run folder."""

import copy
import json
import os
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

Damage = Callable[[Path], None]  # Damages the file at a path

DEEP = "[" * 100_000 + "]" * 100_000
WRONG: tuple[Any, ...] = (
    None, True, -1, 0, 1.5, 10**400, -(10**18), float("nan"), "x", "\0", "\x1b[31m", "<b>" + "y" * 300, [], [[]], [{}],
    [None], ["x"], {}, {"a": 1}, {"a": None}, {"a": {}},
)  # fmt: skip

BROKEN = (
    "", "\0", "\ufeff", "\udc80", "a" * 200_000, "\x1b[31m", "{", "[" * 50_000, "&a [*a]", "!!python/name:os.system x",
    "190:20:30", "9" * 5000, "1e400", ".inf", "nan", "../../etc/passwd", "/dev/zero", "\u202e", "{{7*7}}", "'", '"',
    ",", "\r", "\n\n", "\t", "-1", "a: !!timestamp x", "<<: {a: 1}", "? [a]", "%TAG", "---\n---",
)  # fmt: skip
"""Texts that break a document, a table, a message or a request."""


def text(content: str) -> Damage:
    return lambda file: file.write_text(content, encoding="utf-8") and None


def instead(make: Callable[[Path], object]) -> Damage:
    """Make something else in the place of the file."""

    def damage(file: Path) -> None:
        file.unlink()
        make(file)

    return damage


def truncated(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def flip_bits(number: int, file: Path) -> None:
    """Change one bit or nine, drawn by a number."""
    draw, content = random.Random(number), bytearray(file.read_bytes())
    for _ in range(draw.choice((1, 1, 9))):
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    file.write_bytes(bytes(content))


WHOLE: Mapping[str, Damage] = {
    "empty": text(""),
    "truncated": truncated,
    "binary": lambda file: file.write_bytes(bytes(range(256)) * 20) and None,
    "deep": text(DEEP),
    "deep value": text('{"schema_version": 1, "a": ' + DEEP + "}"),
    "not finite": text("NaN"),
    "list": text("[]"),
    "text": text('"x"'),
    "empty mapping": text("{}"),
    "5,000 digits": text('{"schema_version": ' + "9" * 5000 + "}"),
    "10^400": text('{"schema_version": 1' + "0" * 400 + "}"),
    "NUL": text('{"schema_version": 1, "a": "\0"}'),
    "half a character": text('{"schema_version": 1, "a": "\\ud800"}'),
    "10 MB name": text('{"schema_version": 1, "a": "' + "m" * 10_000_000 + '"}'),
    "folder": instead(lambda file: file.mkdir()),
    "pipe": instead(os.mkfifo),
    "endless": instead(lambda file: file.symlink_to("/dev/zero")),
    "loop": instead(lambda file: file.symlink_to(file.name)),
}


def wrong_types(file: Path, text: str | None = None) -> Iterator[tuple[str, str]]:
    """Return texts of a document, by default the file's, with one value of another kind each, and what was changed."""
    content = file.read_text(encoding="utf-8") if text is None else text
    if file.suffix == ".yaml":
        document = yaml.safe_load(content)
        write: Callable[[Any], str] = lambda value: yaml.safe_dump(value, sort_keys=False)  # noqa: E731
    elif file.suffix == ".jsonl":
        first, _, rest = content.partition("\n")
        document = json.loads(first)
        write = lambda value: f"{json.dumps(value)}\n{rest}"  # noqa: E731
    else:
        document, write = json.loads(content), json.dumps
    for place in _places(document):
        name = ".".join(map(str, place))
        for value in WRONG:
            yield f"{name} = {value!r:.20}", write(_changed(document, place, value))


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return the place of every value; of a list, those of the first two."""
    entries = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, each in entries:
        yield (*at, key)
        yield from _places(each, (*at, key))


def _changed(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(document)
    node = changed
    for step in place[:-1]:
        node = node[step]
    node[place[-1]] = value
    return changed
