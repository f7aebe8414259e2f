"""Keep in a run what its question names: the folder of the files, and the content of the user's own catalogues."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import yaml

from advisor.engine.question import Question, Request
from advisor.store import RunFolder
from advisor.store.files import write_atomically
from advisor.store.yamlfile import read_yaml

INPUTS, CATALOGS = "inputs.json", "catalogs"
PATHS = ("data", "profiles", "catalog")
"""Options of the question that name files."""


def keep_inputs(run: RunFolder, question: Question) -> None:
    """Write the folder that relative paths of the question are counted from, and a copy of each catalogue.

    Raises:
        UsageError: a catalogue cannot be read.
    """
    copies = {}
    for number, path in enumerate(question.catalog):
        copies[_text(path)] = name = f"{CATALOGS}/{number}.yaml"
        values = {**read_yaml(path).values, "folder": _text(path.absolute().parent)}
        (run.path / CATALOGS).mkdir(exist_ok=True)
        write_atomically(run.path / name, yaml.safe_dump(values, sort_keys=False, allow_unicode=True))
    run.write_json(INPUTS, {"folder": _text(Path.cwd()), "catalogs": copies})


def located(request: Request, run: RunFolder) -> Request:
    """Return the request of a run with paths that can be opened from the current folder.

    A path counts from the folder that the run was started in. If a catalogue is no longer there, its copy in the run
    takes its place. Other paths that are no longer there stay as they were typed.
    """
    question = request.question
    return replace(
        request,
        question=replace(
            question,
            data=None if question.data is None else _found(question.data, run),
            profiles=tuple(_found(folder, run) for folder in question.profiles),
            catalog=tuple(_found(file, run) for file in question.catalog),
        ),
    )


def images_folder(run: RunFolder) -> Path:
    """Return the folder that the paths of the images in ``split.json`` are relative to."""
    return _found(Path(str(run.read_json("dataset.json").get("folder", ""))), run)


def _found(path: Path, run: RunFolder) -> Path:
    inputs = run.read_json(INPUTS)
    started = Path(inputs.get("folder", ""))
    there = path if started == Path.cwd() else started / path
    if there.exists():
        return there
    copy = run.path / inputs.get("catalogs", {}).get(_text(path), "")
    return copy if copy.is_file() and copy.resolve().is_relative_to(run.path) else path


def _text(path: Path) -> str:
    """Return a path as JSON and YAML can hold it; a name that is not UTF-8 is not found again."""
    return str(path).encode("utf-8", "backslashreplace").decode("utf-8")
