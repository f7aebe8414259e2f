"""``advisor try``: the page, and what its server refuses."""

import base64
import json
import re
import signal
import socket
import ssl
import subprocess
import sys
from dataclasses import replace
from http.client import HTTPConnection
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen
from zipfile import ZipFile, is_zipfile

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from advisor.core import ImageAnswers, Provenance, UsageError
from advisor.engine import LoadedRun
from advisor.integrations.browser import LITERT
from advisor.integrations.browser.agent import GPU, SOFTWARE
from advisor.integrations.browser.tryout import _phone as phone
from advisor.integrations.browser.tryout._app import PageRoutes
from advisor.integrations.browser.tryout._command import try_run
from advisor.integrations.browser.tryout._photographs import Keeper, describe_weakness
from advisor.integrations.browser.tryout._timings import PostedDevice, name_device
from advisor.integrations.browser.tryout._trial import RunPage
from advisor.reporting import Answerer
from advisor.store import RunFolder
from advisor.tasks._counting import COUNTING
from advisor.tasks.detection import DETECTION
from advisor.tasks.segmentation import SEGMENTATION
from benchmarks.hostile_surfaces.tryout import list_requests, send
from tests.builders import must_fail, present
from tests.integrations.browser.tried import (
    TOKEN,
    opened,
    pages_of,
    read_posted,
    served,
    shorten_timings,
    time_files,
    write_tried_run,
)
from tests.integrations.serve.client import Client
from tests.integrations.serve.shown import finder_files, photograph, two_cells, write_finders
from tests.makers.browsers import FLAGS, Browser, chromium, require_runtime
from tests.measurement import small_models
from tests.processes import PATIENCE_S, until
from tests.run_folders import write_run
from tests.tables import read_table

pytestmark = pytest.mark.integration

SCRIPT = b"<html><script>alert(1)</script></html>"
MOST_BYTES = 3_000_000  # that a browser loads beside the files


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return write_tried_run(tmp_path / "runs")


@pytest.fixture
def pages(run: RunFolder) -> PageRoutes:
    require_runtime(LITERT)
    return pages_of(run)


@pytest.fixture
def client(pages: PageRoutes) -> Client:
    return Client(pages.app(), pages.server)


def test_a_result_is_a_run_of_the_browser_of_a_phone(client: Client, run: RunFolder) -> None:
    answer = client.change("/timings", json.dumps(read_posted()).encode()).json()
    assert [row["value"] for row in answer["times"]] == ["2.10 ms", "2.10 ms", "no result"]
    (made,) = [path for path in run.path.parent.iterdir() if path != run.path and not path.is_symlink()]
    loaded = LoadedRun.load(made)
    assert loaded.question.devices == ("Chrome on Pixel 8 (browser)",)
    assert {one.configuration.target.device for one in loaded.evaluations} == set(loaded.question.devices)
    for one in loaded.evaluations:
        assert present(one.latency).provenance is Provenance.MEASURED
        assert "@litertjs/core==2.5.3 in Chrome 130.0 on Chrome on Pixel 8 (browser)" in present(one.latency).source
    assert not loaded.problems
    assert "Chrome on Pixel 8 (browser)" in (made / "report.html").read_text(encoding="utf-8")
    assert LoadedRun.load(run).evaluations == LoadedRun.load(run.path).evaluations, "the search stays as it is"


def test_a_name_is_never_that_of_a_device_with_a_profile() -> None:
    for model, name in (("pixel-8", "pixel-8"), ("../<b>\n", ".. b"), ("x" * 99, "x" * 40), ("", "an unknown device")):
        assert name_device(PostedDevice(model, "Chrome", "1", 1)) == f"Chrome on {name} (browser)"


def test_results_that_cannot_be_are_refused(client: Client) -> None:
    for place, value, said in read_table(__file__, "lies.yaml"):
        posted = read_posted()
        part: Any = posted
        *path, last = [int(name) if name.isdecimal() else name for name in place.split(".")]
        for name in path:
            part = part[name]
        part[last] = "PLACE"
        answer = client.change("/timings", json.dumps(posted).replace('"PLACE"', value).encode())
        assert (answer.status_code, said in answer.text) == (400, True), (place, value, answer.text)


def test_hundreds_of_hostile_requests_change_nothing(run: RunFolder) -> None:
    require_runtime(LITERT)
    pages = pages_of(run, 5000)
    client = Client(pages.app(), pages.server)
    before = sorted(run.path.parent.rglob("*"))
    cases = [*read_table(__file__, "requests.yaml"), *list_requests()]
    for method, path, headers, status, *content in cases:
        answer = send(client, method, path, headers, *content)
        assert answer.status_code == status, (method, path, headers, content, answer.text)
    assert len(cases) >= 300
    assert sorted(run.path.parent.rglob("*")) == before
    assert client.change("/timings", json.dumps(read_posted()).encode()).status_code == 200


def test_only_so_many_requests_are_answered(client: Client) -> None:
    assert {client.get(f"/{number}/").status_code for number in range(200)} == {403}
    assert [client.get(f"{client.access.root}/files/7.tflite").status_code for _ in range(101)][-2:] == [404, 429]


def test_a_photograph_is_kept_with_its_class_and_the_weakest_is_asked_first(pages: PageRoutes, tmp_path: Path) -> None:
    pages.keeper = Keeper.of(tmp_path / "photographs", pages.trial, print)
    client = Client(pages.app(), pages.server)
    red, page = photograph(), b"<script>alert(1)</script>"
    for content, where, status, said in (
        (red + page, "class=red&device=Chrome+on+Pixel+8", 200, "photograph 1 of this class"),
        (red, "class=green", 400, "is kept as 'red' already"),
        (photograph((0, 0, 250)), "class=../red", 400, "the run has no class '.. red'"),
        (page, "class=red", 400, "the photograph cannot be read"),
        (b"", "class=red", 400, "the photograph cannot be read"),
        (b"\xff" * (Answerer.MOST_BYTES + 1), "class=red", 400, "the file is larger than"),
    ):
        answer = client.change(f"/photographs?{where}", content)
        assert (answer.status_code, said in answer.text) == (status, True), answer.text
    (file,) = (tmp_path / "photographs" / "red").iterdir()
    assert page not in file.read_bytes()
    title, row = (tmp_path / "photographs" / "photographs.csv").read_text(encoding="utf-8").splitlines()
    assert (title, row.split(",")[:2]) == ("path,label,group", [f"red/{file.name}", "red"])
    assert row.split(",")[2].startswith("Chrome on Pixel 8 2")
    again = Keeper.of(tmp_path / "photographs", pages.trial, print)
    assert (again.rows, again.command.split()[-1]) == (pages.keeper.rows, str(again.folder / "photographs.csv"))
    pick = pages.trial.forms[0]
    answers = ImageAnswers(confusion=((9, 1, 0), (0, 5, 5), (0, 0, 10)))
    weak = replace(pick, evaluation=replace(pick.evaluation, holdout_answers=answers))
    counts = replace(pages.trial.run, dataset={"pictures_per_class": {"red": 40, "green": 41}})
    assert describe_weakness(replace(pages.trial, forms=(weak,), run=counts), again) == (
        "Photograph 'green' first: 5 of 10 right (24 to 76 %); 123 more photographs of it would halve this range; "
        "0 kept so far."
    )


def two_things(kind: str, colour: tuple[int, int, int]) -> bytes:
    """Return an image that also is a web page and an archive, and has a script in its comments."""
    image, archive, facts, exif = BytesIO(), BytesIO(), PngInfo(), Image.Exif()
    facts.add_text("Comment", SCRIPT.decode())
    exif[0x010E] = SCRIPT.decode()
    Image.new("RGB", (64, 48), colour).save(image, kind, comment=SCRIPT, pnginfo=facts, exif=exif)
    with ZipFile(archive, "w") as members:
        members.writestr("index.html", SCRIPT)
    return image.getvalue() + SCRIPT + archive.getvalue()


def test_files_that_are_two_things_at_once_are_kept_as_photographs_alone(pages: PageRoutes, tmp_path: Path) -> None:
    pages.keeper = Keeper.of(tmp_path / "photographs", pages.trial, print)
    client = Client(pages.app(), pages.server)
    for place, kind in enumerate(("GIF", "JPEG", "PNG", "WEBP")):
        content = two_things(kind, (60 * place, 90, 20))
        assert (SCRIPT in content, is_zipfile(BytesIO(content))) == (True, True)
        assert client.change("/photographs?class=green", content).status_code == 200, kind
    kept = [file.read_bytes() for file in (tmp_path / "photographs" / "green").iterdir()]
    facts = {(content[:3], SCRIPT in content, is_zipfile(BytesIO(content))) for content in kept}
    assert (len(kept), facts) == (4, {(b"\xff\xd8\xff", False, False)})


def test_thousands_of_guessed_tokens_and_broken_uploads_leave_the_server_as_it_was(
    pages: PageRoutes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pages.keeper = Keeper.of(tmp_path / "photographs", pages.trial, print)
    before = sorted(tmp_path.rglob("*"))
    with served(pages):
        where = urlsplit(pages.server.address)
        guesses, root = HTTPConnection(where.netloc, timeout=PATIENCE_S), where.path
        for number in range(3000):
            guesses.request("GET", f"/{number:043}/")
            assert b"it is of an earlier server" in guesses.getresponse().read()
        for path in ("timings", "photographs?class=red"):
            head = f"POST {root}{path} HTTP/1.1\r\nHost: {where.netloc}\r\nOrigin: http://{where.netloc}\r\n"
            with socket.create_connection((str(where.hostname), where.port or 0), PATIENCE_S) as cut:
                cut.sendall(f"{head}Content-Length: 9999\r\n\r\n".encode() + photograph()[:50])
        guesses.request("GET", root)
        assert guesses.getresponse().status == 200
        guesses.close()
    assert (sorted(tmp_path.rglob("*")), caplog.records) == (before, [])


def test_what_cannot_be_tried_is_said(run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "note.txt").write_text("note")
    empty = write_run(tmp_path, [], name="empty").path
    monkeypatch.setattr(phone, "DOCUMENTATION", ("127.0.0.1", 9))
    monkeypatch.setattr("advisor.core._errors.find_spec", lambda name: None if name == "segno" else name)
    monkeypatch.setitem(sys.modules, "advisor.integrations.browser.tryout._app", None)
    for attempt, said in (
        (lambda: RunPage.of(empty), "has no candidate with a file"),
        (lambda: Keeper.of(tmp_path, RunPage.of(run.path), print), "holds other files"),
        (lambda: Keeper.of(tmp_path / "note.txt", RunPage.of(run.path), print), "is no folder"),
        (lambda: phone.find_address(""), "in no network that a phone could reach"),
        (lambda: phone.find_address("phone.local"), "'phone.local' is not an address"),
        (lambda: phone.find_address("0.0.0.0"), "is no single IPv4 address"),
        (lambda: phone.find_address("192.0.2.7"), "this machine has no address 192.0.2.7"),
        (lambda: try_run(str(run.path), address="127.0.0.1"), "--address is for --phone"),
        (lambda: try_run(str(run.path), phone=True), "--phone needs the package segno, which is not installed"),
    ):
        refused = must_fail(UsageError, re.escape(said), attempt)
        assert refused.hint


def test_the_certificate_is_of_the_address_and_gone_afterwards() -> None:
    with phone.make_certificate("127.0.0.1") as file:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(file)
        assert file.stat().st_mode & 0o077 == 0
    assert not file.exists()
    assert len(phone.draw_code("https://192.168.1.20:8000/" + TOKEN).splitlines()) > 15


def test_the_page_answers_and_times_on_a_small_screen(pages: PageRoutes, browser: Browser) -> None:
    sizes = list[float]()
    with opened(pages, browser) as page:
        tools = page.context.new_cdp_session(page)
        tools.send("Network.enable")
        tools.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
        page.goto(pages.server.address)
        page.wait_for_selector("body[data-ready]")
        assert sum(sizes) - sum(len(form.model.content) for form in pages.trial.forms) <= MOST_BYTES
        page.set_input_files("#file", {"name": "a.png", "mimeType": "image/png", "buffer": photograph((10, 10, 250))})
        page.wait_for_selector("#forms li >> nth=1")
        assert page.locator("#forms li b").all_inner_texts() == ["blue", "blue"]
        assert page.inner_text("#agree") == "All files give the same answer."
        shorten_timings(page)
        time_files(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.evaluate("Object.defineProperty(document, 'hidden', {value: true})")  # as on a phone that is locked
        page.click("#time")
        until(lambda: page.is_enabled("#time"))
        assert page.inner_text("#timed").startswith(
            "The phone was locked, or another page lay over this one: keep this"
        )


def test_a_browser_without_simd_or_camera_is_told_what_to_do(pages: PageRoutes, browser: Browser) -> None:
    flags = [flag for flag in FLAGS if "fake-ui" not in flag]  # which allows the camera
    old = "--js-flags=--no-enable-sse4-1"  # without it, V8 has no SIMD
    strict = browser.browser_type.launch(executable_path=chromium(), args=[*flags, old])
    with opened(pages, strict) as page:
        page.goto(pages.server.address)
        page.wait_for_selector("#status.bad")
        assert page.inner_text("#status").startswith("This browser cannot run the model")
        page.evaluate("startCamera()")
        assert page.inner_text("#status").startswith("The camera cannot be used (NotAllowedError). Take a photo")
    strict.close()


def test_the_command_serves_phones_until_ctrl_c(run: RunFolder, tmp_path: Path, starts_processes: None) -> None:
    """A refused certificate ends nothing, a taken port is named, and who scans the code twice has the page twice."""
    require_runtime(LITERT)
    command = [sys.executable, "-m", "advisor", "try", str(run.path), "--phone", "--address=127.0.0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        address = present(process.stdout).readline().strip()
        port = urlsplit(address).port or 0
        must_fail(URLError, "CERTIFICATE_VERIFY_FAILED", urlopen, address, timeout=PATIENCE_S)
        trusting = ssl.create_default_context()
        trusting.check_hostname = False
        trusting.verify_mode = ssl.CERT_NONE
        assert [urlopen(address, timeout=PATIENCE_S, context=trusting).status for _ in range(2)] == [200, 200]
        said = f"--port: {port} cannot be used .Address already in use"
        assert "free one" in must_fail(UsageError, said, try_run, str(run.path), no_browser=True, port=port).hint
        process.send_signal(signal.SIGINT)
        said = present(process.stderr).read()
    assert (process.returncode, "choose Advanced, then Proceed" in said, "Traceback" in said) == (0, True, False)


@pytest.mark.parametrize(("task", "apart"), [(DETECTION.name, 1e-5), (COUNTING.name, 0.0121), (SEGMENTATION.name, 0.0)])
def test_boxes_centres_and_masks_are_those_of_python(task: str, apart: float, browser: Browser, tmp_path: Path) -> None:
    require_runtime(LITERT)
    pages = pages_of(write_finders(tmp_path / "runs", task, *finder_files(task, tmp_path)))
    with Answerer() as answerer:
        expected = {row.form: row for row in answerer.answer(pages.trial.run.folder.path, two_cells()).forms}
    with opened(pages, browser) as page:
        page.goto(pages.server.address)
        page.wait_for_selector("body[data-ready]")
        assert page.inner_text("h1").startswith(("Which objects", "How many objects", "What does each part"))
        page.set_input_files("#file", {"name": "a.png", "mimeType": "image/png", "buffer": two_cells()})
        page.wait_for_selector("#forms .draw >> nth=1")
        for place, form in enumerate(pages.trial.forms):
            answer = expected[form.evaluation.configuration.compression]
            page.click(f".draw >> nth={place}")
            assert sorted(page.inner_text("#answer").split(", ")) == sorted(answer.answer.split(", "))
            drawn, size = page.evaluate("(() => [state.answers, [part('layer').width, part('layer').height]])()")
            assert size[0] == 2 * size[1], "the layer has the shape of the photograph"
            if answer.layer:
                colours = Image.open(BytesIO(base64.b64decode(answer.layer))).convert("RGBA").tobytes()
                assert bytes(drawn[place]["layer"]["rgba"]) == colours
                continue
            for shown, found in zip(drawn[place]["objects"], answer.found, strict=True):
                assert (form.model.labels[shown["label"]], shown["score"]) == (found.label, pytest.approx(found.score))
                # The page draws a centre as a small square, and cuts boxes at the edge of the photograph.
                assert np.clip(shown["box"], 0, 1) == pytest.approx(np.array(found.box), abs=apart)


def test_webgpu_times_the_files_that_it_runs_whole(browser: Browser, tmp_path: Path) -> None:
    require_runtime(LITERT)
    pages = pages_of(write_tried_run(tmp_path / "runs", small_models.classifier(32, 3), 32), 500)
    flags = [flag for flag in FLAGS if flag != "--disable-gpu"]
    with_gpu = browser.browser_type.launch(executable_path=chromium(), args=[*flags, *GPU, *SOFTWARE])
    with opened(pages, with_gpu) as page:
        page.goto(pages.server.address)
        page.wait_for_selector("body[data-ready]")
        page.context.route("**/*threaded*", lambda route: route.abort())  # threads that do not start cost no other row
        for software, said in ((False, ["software renderer"] * 2), (True, ["float32\n", "INT8 is not supported"])):
            shorten_timings(page, software=software)
            time_files(page)
            rows = page.locator("#times li").all_inner_texts()
            assert all("no result" in row for row in rows if "threads;" in row)
            gpu_rows = filter(re.compile("WebGPU;").search, rows)
            assert [words in row for words, row in zip(said, gpu_rows, strict=True)] == [True, True], rows
    with_gpu.close()
    *_, made = sorted(path for path in (tmp_path / "runs").iterdir() if not path.is_symlink())
    (on_gpu,) = (row for row in LoadedRun.load(made).evaluations if row.configuration.target.accelerator == "gpu")
    assert (on_gpu.configuration.compression, present(on_gpu.remote).delegated) == ("float32", (6, 6))
    assert "2.5.3 on WebGPU in Chromium" in present(on_gpu.latency).source
