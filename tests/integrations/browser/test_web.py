"""The web page of a bundle in a real headless Chromium: it gives the answers of the model and loads nothing else."""

import io
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from skimage import data

from advisor.core import ShippedThresholds, UsageError
from advisor.datasets import load
from advisor.integrations.browser import LITERT
from advisor.integrations.browser.web import web_page
from advisor.reporting import Bundle, ShippedModel
from advisor.reporting._bundle.bundle import export
from advisor.reporting._bundle.shipping import Page as BundlePage, parts_of
from advisor.store import RunFolder
from advisor.tasks.classification._answers import compute_probabilities
from advisor.tasks.classification._shipping import SHIPPING
from advisor.tasks.detection import DETECTION
from tests.builders import write_file
from tests.makers.browsers import Browser, Page, new_context, require_runtime
from tests.makers.bundles import evaluation_of, ran
from tests.makers.commands import called
from tests.processes import free_port

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
SAME = 1e-4
"""Largest difference of a probability where the browser decodes an image as Pillow does; 1e-7 on x86."""


@dataclass
class Opened:
    """A page with what it asked for and what it complained of."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    answers: int = 0

    def classify(self, name: str, content: bytes) -> NDArray[np.float64]:
        """Choose a file and return the probabilities that the page computes."""
        self.page.set_input_files("#file", {"name": name, "mimeType": "image/png", "buffer": content})
        self.answers += 1
        self.page.wait_for_selector(f'#result[data-count="{self.answers}"]')
        return np.array(json.loads(self.page.get_attribute("#result", "data-probabilities") or ""))


@pytest.fixture(scope="module")
def made(trained: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A bundle with the page; its model is int8, whose input and output export makes float32."""
    require_runtime(LITERT)
    key = evaluation_of(trained, "int8").configuration.key
    return export(trained.path, tmp_path_factory.mktemp("web") / "bundle", pick=key, targets=["web"])


@contextmanager
def opened(browser: Browser, address: str, prepared: str = "", **options: Any) -> Iterator[Opened]:
    """Open a page in a context of its own and wait until it is ready."""
    context = new_context(browser, **{**PHONE, **options})
    found = Opened(context.new_page())
    found.page.on("request", lambda request: found.requests.append(request.url))
    found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
    bad = ("error", "warning")
    found.page.on("console", lambda said: found.complaints.append(said.text) if said.type in bad else None)
    if prepared:
        context.add_init_script(prepared)
    found.page.goto(address)
    found.page.wait_for_selector("body[data-ready]")
    yield found
    context.close()


@pytest.fixture(scope="module")
def page(browser: Browser, made: Bundle) -> Iterator[Opened]:
    """The page, opened by its file as a double-click does."""
    with opened(browser, (made.path / "web" / "index.html").as_uri()) as found:
        yield found


def png(pixels: NDArray[np.uint8], **options: Any) -> bytes:
    return encoded(pixels, "PNG", **options)


def encoded(pixels: NDArray[np.uint8], kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind, **options)
    return buffer.getvalue()


def litert_answer(made: Bundle, content: bytes, folder: Path) -> NDArray[np.float64]:
    """Return the probabilities for an image that the product reads."""
    file = folder / "image.png"
    file.write_bytes(content)
    return np.array(compute_probabilities(made.model, load(file, made.model.size)[None])[0])


def test_the_test_vectors_get_the_answers_of_litert(page: Opened, made: Bundle) -> None:
    document = json.loads((made.path / "test_vectors" / "vectors.json").read_text(encoding="utf-8"))
    for row in document["vectors"]:
        pixels = np.fromfile(made.path / "test_vectors" / row["input"], np.uint8)
        found = page.classify(row["input"], png(pixels.reshape(document["size"], document["size"], 3)))
        assert np.abs(found - row["probabilities"]).max() <= document["tolerance"]
        assert page.page.inner_text("#answer") == made.model.labels[row["label"]]


@pytest.mark.parametrize("photograph", [data.chelsea, data.rocket])
def test_photographs_are_resized_as_the_product_does(
    page: Opened, made: Bundle, tmp_path: Path, photograph: Callable[[], NDArray[np.uint8]]
) -> None:
    content = png(photograph())
    assert np.abs(page.classify("photo.png", content) - litert_answer(made, content, tmp_path)).max() <= SAME


def test_small_turned_grey_or_transparent_images_are_alike(page: Opened, made: Bundle, tmp_path: Path) -> None:
    cat = data.chelsea()
    turned = Image.Exif()
    turned[0x0112] = 6
    fading = np.tile(np.linspace(0, 255, cat.shape[1]).astype(np.uint8), (cat.shape[0], 1))
    kinds = {
        "small": png(cat[:64, :40]),
        "grey": png(data.camera()),
        "transparent": png(np.dstack([cat, fading])),
        "turned": encoded(np.ascontiguousarray(np.rot90(cat)), "JPEG", exif=turned, quality=95),
    }
    for name, content in kinds.items():
        difference = np.abs(page.classify(name, content) - litert_answer(made, content, tmp_path)).max()
        assert difference <= 0.02, name


def test_sixteen_bits_are_read_and_twelve_in_sixteen_are_refused(page: Opened, made: Bundle, tmp_path: Path) -> None:
    grey = np.asarray(data.camera()).astype(np.uint16)
    content = png(grey * 257)
    assert np.abs(page.classify("wide.png", content) - litert_answer(made, content, tmp_path)).max() <= 0.02
    page.page.set_input_files("#file", {"name": "narrow.png", "mimeType": "image/png", "buffer": png(grey * 16)})
    page.page.wait_for_selector("#status.bad")
    assert page.page.inner_text("#status").startswith("narrow.png stores 12 bits or fewer in 16")


def test_a_file_that_is_no_image_is_refused_in_words(page: Opened) -> None:
    page.page.set_input_files("#file", {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"no image"})
    page.page.wait_for_selector("#status.bad")
    assert page.page.inner_text("#status") == "notes.txt is no image that this browser can read."
    page.classify("photo.png", png(data.chelsea()))
    assert page.page.is_hidden("#status")


def test_bars_show_the_most_probable_labels_first(page: Opened, made: Bundle) -> None:
    found = page.classify("photo.png", png(data.rocket()))
    shown = page.page.eval_on_selector_all("#bars span", "all => all.map((one) => one.textContent)")
    assert shown == [made.model.labels[place] for place in np.argsort(-found, kind="stable")]


def test_the_live_camera_gives_answers(page: Opened) -> None:
    page.page.click("#live")
    page.page.wait_for_selector("#video", state="visible")
    page.page.wait_for_selector(f'#result:not([data-count="{page.answers}"])')
    page.page.click("#live")
    assert page.page.is_hidden("#video")
    page.answers = int(page.page.get_attribute("#result", "data-count") or "")


def test_it_asks_for_its_own_files_alone_and_complains_of_nothing(page: Opened, made: Bundle) -> None:
    own = (made.path / "web").as_uri()
    assert {url.removeprefix(own) for url in page.requests if not url.startswith("blob:")} == {
        "/index.html", "/model.js", "/runtime.js",
    }  # fmt: skip
    assert page.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_in_light_and_dark(page: Opened, scheme: Literal["light", "dark"]) -> None:
    page.page.emulate_media(color_scheme=scheme)
    page.classify("photo.png", png(data.chelsea()))
    assert page.page.evaluate("document.documentElement.scrollWidth") == 390
    background = page.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(246, 247, 249)") is (scheme == "light")
    box = page.page.locator(".button.first").bounding_box()
    assert box["height"] >= 48, "a thumb hits it"


def test_it_opens_again_without_a_network(browser: Browser, made: Bundle) -> None:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *arguments: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=made.path / "web"))
    Thread(target=server.serve_forever, daemon=True).start()
    with opened(browser, f"http://127.0.0.1:{server.server_port}/") as found:
        found.page.evaluate("navigator.serviceWorker.ready.then(() => true)")
        server.shutdown()
        server.server_close()
        found.page.reload()
        found.page.wait_for_selector("body[data-ready]")
        found.answers = 0
        assert found.classify("photo.png", png(data.chelsea())).sum() == pytest.approx(1, abs=0.01)


def test_below_a_threshold_an_answer_is_not_sure_by_any_runtime(browser: Browser, made: Bundle, tmp_path: Path) -> None:
    (first, *_), labels = made.model.labels, made.model.labels
    thresholds = ShippedThresholds(0.9, dict.fromkeys(labels, 0.999999), {first: 0.0})
    model = replace(ShippedModel.prepare(made.model.content, "model.tflite"), thresholds=thresholds)
    for name, content in web_page(model, made.evaluation, SHIPPING.page).items():
        write_file(tmp_path / name, content)
    without_simd = "const all = WebAssembly.validate; WebAssembly.validate = (code) => !code.includes(128) && all(code)"
    with opened(browser, (tmp_path / "web" / "index.html").as_uri(), without_simd) as found:
        probabilities = found.classify("photo.png", png(data.camera()))
        runtimes = {Path(url).name for url in found.requests if "/runtime" in url}
        assert runtimes == {"runtime_compat.js"}
        assert found.page.inner_text("#answer") == "Not sure"
        most = labels[int(probabilities.argmax())]
        assert found.page.inner_text("#remark") == f"Most probable: {most}, but an answer counts from 100\u00a0%."
        assert found.page.inner_text("#flags") == f"May show: {first}"


def test_every_bundle_of_a_classifier_has_the_page(trained: RunFolder, made: Bundle, tmp_path: Path) -> None:
    found = export(trained.path, tmp_path / "bundle", pick=made.evaluation.configuration.key, targets=["ios"])
    pages = [{name for name in each.files if name.startswith("web/")} for each in (found, made)]
    assert pages[0] == pages[1] >= {"web/index.html", "web/model.js"}
    assert "ios/Classifier.swift" in found.files
    assert found.without_page == ""
    readme = (made.path / "README.md").read_text(encoding="utf-8")
    assert "- `web/`: a page that classifies images: open web/index.html in a browser" in readme
    assert ran(found.path / "check.py")[0] == 0


def test_where_its_runtime_cannot_be_fetched_the_bundle_has_no_page_and_says_so(
    trained: RunFolder, own_folders: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{free_port()}/")
    refused = called(("export", str(trained.path), "--to", "bundle", "--web"), tmp_path, os.environ)
    assert (refused.code, (tmp_path / "bundle").exists()) == (2, False)
    assert "error: the npm package @litertjs/core 2.5.3 cannot be fetched" in refused.err
    said = called(("export", str(trained.path), "--to", "bundle"), tmp_path, os.environ)
    assert said.code == 0, said.err
    (line,) = (line for line in said.err.splitlines() if "page" in line)
    assert re.fullmatch("the bundle has no page to try the model: .* cannot be fetched: .*; configure npm .*", line)
    assert "web/" not in said.out
    assert not (tmp_path / "bundle" / "web").exists()
    assert "`web/`" not in (tmp_path / "bundle" / "README.md").read_text(encoding="utf-8")


def test_a_task_without_a_script_gets_no_page() -> None:
    with pytest.raises(UsageError, match="--web: there is no page that finds objects in images"):
        parts_of(["web"])["web"].check(replace(DETECTION.shipping(), page=BundlePage()))
