"""The files that ``advisor profile`` writes."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from advisor.compression.diagnosis.values import Diagnosis
from advisor.core.errors import UsageError
from advisor.measurement.operators.profile_export import to_trace, to_tsv
from advisor.measurement.operators.profile_values import Profile


@dataclass(frozen=True)
class Wanted:
    """Path of each form of a profile, None where it is not requested."""

    html: Path | None = None
    json: Path | None = None
    tsv: Path | None = None
    trace: Path | None = None
    graph: Path | None = None

    @classmethod
    def into(cls, folder: Path | None, single: Wanted) -> Wanted:
        """Return all forms in ``folder``, except those with a path in ``single``; ``single`` if there is no folder."""
        if folder is None:
            return single
        names = {"html": "profile.html", "json": "profile.json", "tsv": "profile.tsv", "trace": "trace.json"}
        places = {name: folder / file for name, file in {**names, "graph": "graph.json"}.items()}
        return cls(**{name: getattr(single, name) or place for name, place in places.items()})

    @property
    def paths(self) -> tuple[Path, ...]:
        """All requested files."""
        return tuple(path for path in (self.html, self.json, self.tsv, self.trace, self.graph) if path is not None)

    def check(self) -> None:
        """Make the folders and check that they are writable, before anything is measured.

        Raises:
            UsageError: a file cannot be written.
        """
        for path in self.paths:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UsageError(f"cannot write '{path}': {error.strerror}", "choose another place") from error
            if path.is_dir() or not os.access(path.parent, os.W_OK):
                reason = "it is a folder" if path.is_dir() else "its folder is not writable"
                raise UsageError(f"cannot write '{path}': {reason}", "choose another place")


def write_files(profile: Profile, wanted: Wanted, diagnosis: Diagnosis | None = None) -> tuple[Path, ...]:
    """Write the requested files and return them; the diagnosis goes into the JSON and the page."""
    if wanted.json:
        more = {"diagnosis": diagnosis.to_json()} if diagnosis else {}
        _write(wanted.json, json.dumps({**profile.to_json(), **more}, indent=1, allow_nan=False))
    if wanted.tsv:
        _write(wanted.tsv, to_tsv(profile))
    if wanted.trace:
        _write(wanted.trace, json.dumps(to_trace(profile), allow_nan=False))
    if wanted.graph:
        from advisor.measurement.operators.profile_graph import to_graph

        _write(wanted.graph, json.dumps(to_graph(profile), allow_nan=False))
    if wanted.html:
        from advisor.reporting.profile.page import render

        _write(wanted.html, render(profile, diagnosis))
    return wanted.paths


def _write(path: Path, content: str) -> None:
    """Write a text as UTF-8.

    Raises:
        UsageError: the file cannot be written.
    """
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write '{path}': {error.strerror}", "choose another place") from error
