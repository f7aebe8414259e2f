"""Find the files that the question of a run names, and the request that it goes on with.

A search keeps where its paths count from (``inputs.json``) and copies of its catalogues when it
begins. Whoever loads the run later, in another folder or on another machine, finds them again
here.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from advisor.core import TrainingName, UsageError, parse_known, without_passwords
from advisor.engine._question import Question, Request, resolve_resumed
from advisor.store import RunFolder, YamlDocument

INPUTS = "inputs.json"

CATALOGS = "catalogs"


def keep_inputs(run: RunFolder, question: Question) -> None:
    """Write the folder that relative paths of the question are counted from,
    and a copy of each catalogue.
    """
    copies = {}
    for number, path in enumerate(question.catalog):
        # Numbers and not names: two catalogues may have one name in different folders.
        name = f"{CATALOGS}/{number}.yaml"
        copies[_write_path(path)] = name
        values = {**YamlDocument.read(path).values, "folder": _write_path(path.absolute().parent)}
        content = yaml.safe_dump(without_passwords(values), sort_keys=False, allow_unicode=True)
        run.write(name, content)
    run.write_json(INPUTS, {"folder": _write_path(Path.cwd()), "catalogs": copies})


def resume_request(
    folder: Path, options: Mapping[str, Any], file: Path | None, extend: str | None
) -> Request:
    """Return the request of a run that goes on, with the options that may change.

    See :func:`resolve_resumed`.

    Raises UsageError: it is no run, it has changed since the search wrote it,
    or an option asks something else.
    """
    run = RunFolder.open(folder)
    # The rows of the run answer the question that was asked, not one that was edited since.
    for name in ("request.yaml", "manifest.json"):
        if not run.is_unchanged(name):
            raise UsageError(
                f"--resume: {name} of '{run.path}' has changed since the search wrote it",
                "start a new run: unchanged work is taken from the cache",
            )
    return locate_paths(resolve_resumed(read_stored_request(run), options, file, extend), run)


def locate_paths(request: Request, run: RunFolder) -> Request:
    """Return the request of a run with paths that can be opened from the current folder.

    A path counts from the folder that the run was started in. The copy of a catalogue in the run
    takes its place if it is no longer there. Other paths stay as they were typed. As many images
    are read as the run has drawn.
    """
    question = request.question
    dataset = run.read_json("dataset.json")
    located = replace(
        question,
        data=None if question.data is None else _locate_path(question.data, run),
        start=None if question.start is None else _locate_path(question.start, run),
        profiles=tuple(_locate_path(path, run) for path in question.profiles),
        catalog=tuple(_locate_path(path, run) for path in question.catalog),
        most_images=dataset.get("most_images", 0) if dataset else None,
    )
    return replace(request, question=located)


def images_folder(run: RunFolder) -> Path:
    """Return the folder that the paths of the images in ``split.json`` are relative to."""
    folder = run.read_json("dataset.json").get("folder", "")
    return _locate_path(Path(str(folder)), run)


def _locate_path(path: Path, run: RunFolder) -> Path:
    """Return a path of the question where it is now:
    as it was typed, the run's copy of a catalogue, or unchanged.
    """
    # `inputs.json` and the request may have been edited,
    # so that they have paths that no system can have.
    inputs = run.read_json(INPUTS)
    started = Path(str(inputs.get("folder", "")))
    # In the same folder a path stays as the user typed it, for messages and commands.
    original = path if started == Path.cwd() else started / path
    with suppress(OSError, ValueError):
        if original.exists():
            return original
    known = parse_known({CATALOGS: Mapping[str, str]}, inputs)
    copies: Mapping[str, str] = known.get(CATALOGS, {})
    with suppress(OSError, ValueError):
        copy = run.path / copies.get(_write_path(path), "")
        # A copy outside of the run is not read.
        if copy.is_file() and copy.resolve().is_relative_to(run.path):
            return copy
    return path


def _write_path(path: Path) -> str:
    """Return a path as JSON and YAML can hold it; a name that is not UTF-8 is not found again."""
    # JSON and YAML in UTF-8 cannot hold the surrogates by which Python keeps other bytes.
    return str(path).encode("utf-8", "backslashreplace").decode("utf-8")


def read_stored_request(folder: RunFolder) -> dict[str, Any]:
    """Return the request of a run;
    that of a run from before fine-tuning was a default asks for heads alone.
    """
    request = dict(folder.read_request())
    trained = read_section(folder.read_json("manifest.json"), "space").get("training")
    # Without this, reading an old run would ask for fine-tuning that it never planned.
    alone = [TrainingName.HEAD]
    after_subset = [TrainingName.HEAD_SUBSET, TrainingName.HEAD]
    if not request.get("training") and trained in (alone, after_subset):
        request["training"] = [TrainingName.HEAD.value]
    return request


def read_section(document: Mapping[str, object], name: str) -> Mapping[str, Any]:
    """Return the object under ``name`` of a JSON document;
    an empty one where there is none, as in a damaged file.
    """
    value = document.get(name)
    return value if isinstance(value, Mapping) else {}
