"""A table of damaged run folders: each command answers from what is whole, or ends with one line and exit code 2."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from advisor.store import RunFolder
from tests.hostile.attempts import faults
from tests.hostile.damages import DEEP, Damage, instead, replaced, text
from tests.makers.commands import Advisor
from tests.run_folders import images, write_run

pytestmark = pytest.mark.integration

SOON_S = 120
CHANGED = "line 1 (best/head/int8@host:cpux1) has changed since it was written"
MANIFEST, EVALUATIONS, REQUEST = "manifest.json", "evaluations.jsonl", "request.yaml"


@dataclass(frozen=True)
class Case:
    """A damaged file of a run folder."""

    file: str  # name of the file
    damage: Damage  # what happens to it
    words: str  # a part of what ``advisor report`` says of it
    code: int = 0  # its exit code


CASES = {
    "manifest nested deep": Case(MANIFEST, text(DEEP), "manifest.json is damaged (values nested more than 64 deep)"),
    "manifest with wrong types": Case(
        MANIFEST, replaced('"advisor": "0.1.0"', '"advisor": 1, "durations": "x"'), "(durations is of a wrong type)"
    ),
    "a pipe as manifest": Case(MANIFEST, instead(os.mkfifo), "manifest.json is neither a file nor a folder", 2),
    "a link out of the run": Case(
        MANIFEST, instead(lambda file: file.symlink_to("/etc/hostname")), "manifest.json is neither a file", 2
    ),
    "data set of wrong types": Case("dataset.json", replaced('"train": 12', '"train": [1]'), "(train is of a wrong"),
    "request nested deep": Case(REQUEST, text(DEEP), "request.yaml cannot be read (1: values nested more than", 2),
    "accuracy above 100 %": Case(EVALUATIONS, replaced("92", "1e308"), CHANGED),
}


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return write_run(tmp_path / "runs", dataset=images({"cat": 10, "dog": 10}))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_damage_is_one_line_with_its_place(advisor: Advisor, run: RunFolder, case: Case) -> None:
    case.damage(run.path / case.file)
    said = advisor("report", str(run.path), timeout=SOON_S)
    assert not faults(said.code, said.out, said.err)
    assert said.code == case.code, said.err[-800:]
    assert [line for line in said.err.splitlines() if case.words in line], said.err[-800:]
