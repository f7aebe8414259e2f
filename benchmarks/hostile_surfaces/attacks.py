"""Hostile folders and programs, as the tables beside this module have them, and what a command there says and leaves.

A file is a text, or one key: ``image`` (a number that draws it), ``link``, ``pipe``, ``folder``, ``hex``, ``sparse``
(bytes), ``program`` (a shell script, also found by name in ``bin``), ``zip`` or ``tar`` (a list of name and file).
``<a*5000>`` in a text is 5,000 times the character.
"""

import io
import os
import re
import tarfile
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.datasets.folders import image

_REPEATED = re.compile(r"<(.[^<>]*?)\*(\d+)>", re.DOTALL)


@dataclass(frozen=True)
class Case:
    """A command, the files beside it, and what is right."""

    arguments: tuple[str, ...]
    words: str = ""  # a part of the error, or of the output where the command ends with 0
    files: Mapping[str, Any] = field(default_factory=dict)
    code: int = 2
    left: Mapping[str, str] = field(default_factory=dict)  # text of files that must be as they were
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)  # folders that get ten images a class


def read_cases(name: str) -> Mapping[str, Case]:
    """Return the cases of a file beside this module."""
    # Some names hold half of a surrogate pair, which the parser in C refuses.
    rows = yaml.safe_load(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    return {label: _case(row) for label, row in rows.items()}


def _case(row: Mapping[str, Any]) -> Case:
    return Case(**{**row, "arguments": tuple(_long(str(word)) for word in row["arguments"])})


def _long(text: str) -> str:
    return _REPEATED.sub(lambda found: found[1] * int(found[2]), text)


def build(place: Path, case: Case) -> None:
    """Write the files of a case into a folder."""
    for folder, names in case.classes.items():
        for first, name in enumerate(names):
            for number in range(10):
                _write(place / folder / name / f"{number}.jpg", {"image": 100 * first + number})
    for name, content in case.files.items():
        _write(place / _long(name), content)


def wrong(place: Path, case: Case, code: int, out: str, err: str) -> str:
    """Return what is wrong with the end of a command, and with what it left; empty if all is right."""
    if code != case.code:
        return f"ended with {code}"
    if case.words not in (err if code else out + err):
        return f"'{case.words}' is not said"
    changed = [name for name, text in case.left.items() if (place / name).read_text() != text]
    return f"changed: {changed}" if changed else ""


def _write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not isinstance(content, dict):
        path.write_bytes(_bytes(content))
        return
    ((kind, value),) = content.items()
    if kind == "link":
        path.symlink_to(value)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "sparse":
        path.touch()
        os.truncate(path, value)
    else:
        path.write_bytes(_bytes(content))
    if kind == "program":
        path.chmod(0o755)


def _bytes(content: Any) -> bytes:
    if not isinstance(content, dict):
        return _long(str(content)).encode("utf-8", "surrogateescape")
    ((kind, value),) = content.items()
    match kind:
        case "hex":
            return bytes.fromhex(value)
        case "program":
            return f"#!/bin/sh\n{value}\n".encode()
        case "zip":
            return _zipped(value)
        case "tar":
            return _tarred(value)
    stored = io.BytesIO()
    image(value).save(stored, "JPEG")
    return stored.getvalue()


def _zipped(entries: Sequence[Sequence[Any]]) -> bytes:
    stored = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(stored, "w", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")  # that a name stands twice
        for name, content in entries:
            info = zipfile.ZipInfo("x")
            info.filename = _long(name)  # its constructor would change some
            if isinstance(content, dict) and "link" in content:
                info.external_attr = 0o120777 << 16
                content = content["link"]
            archive.writestr(info, _bytes(content))
    return stored.getvalue()


def _tarred(entries: Sequence[Sequence[Any]]) -> bytes:
    stored = io.BytesIO()
    with tarfile.open(fileobj=stored, mode="w") as archive:
        for name, content in entries:
            info = tarfile.TarInfo(_long(name))
            kind = next(iter(content)) if isinstance(content, dict) else ""
            if kind in ("link", "pipe", "folder", "hard"):
                info.type = {"link": tarfile.SYMTYPE, "pipe": tarfile.FIFOTYPE, "folder": tarfile.DIRTYPE}.get(
                    kind, tarfile.LNKTYPE
                )
                info.linkname = str(content[kind])
                archive.addfile(info)
                continue
            data = _bytes(content)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return stored.getvalue()
