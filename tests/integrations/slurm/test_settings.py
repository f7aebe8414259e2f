"""The settings of the jobs of a batch system."""

from pathlib import Path

import pytest

from advisor.core import UsageError
from advisor.integrations.slurm import USUAL, SlurmExecutor, read_settings
from tests.builders import must_fail
from tests.tables import with_cases


def test_settings_add_to_the_usual_ones(tmp_path: Path) -> None:
    (tmp_path / "team.yaml").write_text("jobs: {mem_gb: 16, slurm_partition: cpu}\ntraining: {gpus_per_node: 1}\n")
    found = read_settings(str(tmp_path / "team.yaml"))
    assert found["jobs"] == {**USUAL, "mem_gb": 16, "slurm_partition": "cpu"}
    assert found["training"] == {"gpus_per_node": 1}
    assert read_settings("") == {"cluster": "slurm", "jobs": USUAL, "training": None}


@with_cases
def test_wrong_settings_are_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "team.yaml").write_text(text)
    refused = must_fail(UsageError, "", read_settings, str(tmp_path / "team.yaml"))
    assert words in refused.message


def test_a_file_that_is_missing_is_named() -> None:
    must_fail(UsageError, r"no/such\.yaml", read_settings, "no/such.yaml")


@with_cases
def test_what_submitit_lacks_is_refused(jobs: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "team.yaml").write_text(f"cluster: local\njobs: {{{jobs}}}\n")
    refused = must_fail(UsageError, "Slurm's settings: ", SlurmExecutor, read_settings(str(tmp_path / "team.yaml")), 1)
    assert words in refused.message
    assert "mem_gb" in refused.hint
