"""``advisor export`` as a user types it; what a bundle holds is tested under tests/reporting/bundle."""

from pathlib import Path

from tests.makers.commands import Advisor, ended, refused
from tests.run_folders import write_run
from tests.tables import with_cases


def test_candidates_are_listed_by_number_and_key_and_a_gone_artefact_is_said(advisor: Advisor, run: Path) -> None:
    said = ended(advisor("export", "runs/latest", "--list"))
    lines = said.out.splitlines()
    assert [line.split()[0:2] for line in lines] == [["1", "best"], ["2", "fast"], ["3", "small"]]
    assert lines[0].endswith("best/head/int8@host:cpux1")
    listed = advisor("export", "runs/latest", "--list", "--json").document["candidates"]
    assert [each["key"].split("/")[0] for each in listed] == ["best", "fast", "small"]
    (run / "artifacts" / "best-head-int8.tflite").unlink()
    refused(advisor("export", "runs/latest", "--to", "b"), "best-head-int8.tflite is missing", "--list")


def test_a_run_without_a_candidate_says_so(advisor: Advisor, tmp_path: Path) -> None:
    write_run(tmp_path / "runs", [])
    assert ended(advisor("export", "runs/latest", "--list")).out == "The run has no candidate with a file.\n"


@with_cases
def test_wrong_use_is_refused_and_nothing_written(
    advisor: Advisor, run: Path, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    refused(advisor("export", *arguments, COLUMNS="200"), words)
    assert not (tmp_path / "b").exists()
