"""Commands in real child processes."""

import io
import re
import zipfile
from pathlib import Path

import pytest

from advisor.core import ExitCode, StageError, UsageError
from advisor.integrations.browser import LITERT
from advisor.integrations.serve import _jobs as serve_jobs
from advisor.integrations.serve._access import Access
from advisor.integrations.serve._jobs import ReevaluationJob, Reevaluations
from advisor.integrations.serve._pages import Pages
from advisor.isolation import Finished
from advisor.reporting import Runs
from advisor.store import RunFolder
from tests.builders import must_fail, present
from tests.integrations.serve.client import Client
from tests.makers.browsers import require_runtime
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
    monkeypatch.setattr(serve_jobs, "run_program", lambda *_, **__: Finished(ExitCode.USAGE, "", said))
    must_fail(StageError, "^the file has no metadata$", serve_jobs.zip_bundle, tmp_path / "run", tmp_path)


def test_a_refused_re_evaluation_shows_why(colours: RunFolder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    command, go = serve_jobs.make_command, tmp_path / "go"
    wait = ("sh", "-c", f'until [ -e "{go}" ]; do sleep 0.05; done; exec "$@"', "sh")
    monkeypatch.setattr(serve_jobs, "make_command", lambda words: [*wait, *command(words)])
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


def test_phones_can_open_one_run_until_the_server_ends(runs: Path, access: Access, colours: RunFolder) -> None:
    import httpx2

    require_runtime(LITERT)
    run = f"/runs/{colours.path.name}/"
    with Client(Pages(Runs(runs), access).app(), access) as client:
        assert client.change("/runs/nothing/phone").status_code == 400
        assert "is not an address" in client.change(f"{run}phone", b"address=a%00b").text
        client.change(f"{run}phone", b"address=192.0.2.7")
        until(lambda: ">failed<" in client.page(run))
        assert "this machine has no address 192.0.2.7" in client.page(run)
        assert client.change(f"{run}phone", b"address=127.0.0.1").headers["location"] == "./"
        assert "phones can open" in client.change(f"{run}phone").text
        until(lambda: "address-for-phones" in client.page(run))
        (address,) = re.findall(r'phones">(.*?)<', client.page(run))
        assert httpx2.get(address, verify=False).status_code == 200
    must_fail(httpx2.ConnectError, "", httpx2.get, address, verify=False)
