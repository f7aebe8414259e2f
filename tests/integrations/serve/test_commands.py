"""Commands in real child processes."""

import io
import zipfile
from pathlib import Path

import pytest

from advisor.core import ExitCode, StageError, UsageError
from advisor.integrations.serve import _pages as pages
from advisor.integrations.serve._pages import ReevaluationJob, Reevaluations
from advisor.isolation import Finished
from advisor.store import RunFolder
from tests.builders import must_fail, present
from tests.integrations.serve.client import Client
from tests.processes import free_port, until

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("starts_processes")]


def ended(jobs: Reevaluations, run: Path) -> ReevaluationJob:
    """Return the last re-evaluation of a run when it has ended, which has no answer."""
    until(lambda: present(jobs.of(run.name)).ended)
    job = present(jobs.of(run.name))
    assert not job.answer
    return job


def test_the_bundle_is_a_zip_file(
    client: Client, colours: RunFolder, own_folders: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{free_port()}/")  # no page: it is large
    answer = client.get(f"{client.access.root}/runs/{colours.path.name}/bundle.zip")
    assert answer.headers["content-disposition"] == f'attachment; filename="{colours.path.name}-bundle.zip"'
    assert {"model.tflite", "labels.txt", "README.md"} <= set(zipfile.ZipFile(io.BytesIO(answer.content)).namelist())


def test_a_bundle_that_cannot_be_made_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = "note: reading\nerror: the file has no metadata\nhint:  search again\n"
    monkeypatch.setattr(pages, "run_program", lambda *_, **__: Finished(ExitCode.USAGE, "", said))
    must_fail(StageError, "^the file has no metadata$", pages.zip_bundle, tmp_path / "run", tmp_path)


def test_a_refused_re_evaluation_shows_what_it_said(
    colours: RunFolder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command, go = pages._command, tmp_path / "go"
    wait = ("sh", "-c", f'until [ -e "{go}" ]; do sleep 0.05; done; exec "$@"', "sh")
    monkeypatch.setattr(pages, "_command", lambda words: [*wait, *command(words)])
    jobs = Reevaluations()
    jobs.start(colours.path, "raspberry-py-4")
    must_fail(UsageError, "is being re-evaluated", jobs.start, colours.path, "")
    go.touch()
    assert any("raspberry-pi-4" in line for line in ended(jobs, colours.path).lines)


def test_what_is_no_name_of_a_device_is_refused_and_nothing_starts(colours: RunFolder) -> None:
    jobs = Reevaluations()
    must_fail(UsageError, "is not the name of a device", jobs.start, colours.path, "a\0b")
    jobs.close()


def test_the_server_ends_its_command(colours: RunFolder) -> None:
    jobs = Reevaluations()
    jobs.start(colours.path, "raspberry-pi-4")
    jobs.close()
    ended(jobs, colours.path)
