"""The images on the page: which are shown, and how large they make it."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from html import unescape
from itertools import repeat
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from advisor.core import ConfidenceFacts, Interval, Mistake, Provenance, Quantity
from advisor.engine import Disagreements, Insights
from advisor.engine._history.disagreements import Disagreement, ImageAnswer
from advisor.reporting import RunView
from advisor.reporting._blocks import Chart
from advisor.reporting._files import render_markdown
from advisor.reporting._html import render_html
from advisor.reporting._pages import CHANGED_SHOWN
from tests.reporting.test_html import without_scripts
from tests.reporting.views import judged_view, with_pick

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photographs of noise, which JPEG compresses least."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("noise")
    for name in map("<{:02}>.png".format, range(30)):
        Image.fromarray(rng.integers(0, 256, (200, 200, 3), dtype=np.uint8)).save(folder / name)
    return folder


@pytest.fixture(scope="module")
def noise(folder: Path) -> list[tuple[str, str]]:
    """Path and hash of each photograph."""
    return [(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in sorted(folder.iterdir())]


def shown_view(
    folder: Path,
    wrong: Sequence[tuple[str, str]] = (),
    changed: Sequence[tuple[str, str]] = (),
    labels: Iterable[int] = repeat(1),
) -> RunView:
    """Return a run whose pick answers some images wrongly, and differs on others from its float32 file."""
    view, none = judged_view(), Interval(0.0, 0.0, 0.0)
    mistakes = tuple(Mistake(*image, label, 0, 0.994) for image, label in zip(wrong, labels, strict=False))
    confidence = ConfidenceFacts(1.0, none, none, none, none, mistakes=mistakes)
    answers = replace(view.decision.pick.holdout_answers, confidence=confidence)
    rows = tuple(Disagreement(*image, 1, ImageAnswer(0, 0.75), ImageAnswer(1)) for image in changed)
    found = Disagreements("int8", "hold-out", 500, rows) if changed else None
    return replace(with_pick(view, holdout_answers=answers), images=folder, insights=Insights(disagreements=found))


def photographed(folder: Path) -> RunView:
    """Return a run with six images in a folder that its pick answers wrongly."""
    for number in range(6):
        Image.new("RGB", (80, 60), (40 * number, 90, 200)).save(folder / f"{number}.png")
    files = sorted(folder.glob("?.png"))
    return shown_view(folder, [(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in files])


def part_of(view: RunView) -> str:
    page = unescape(without_scripts(render_html(view)))
    return page.split('<section id="images"')[1].split("</section>")[0] if '<section id="images"' in page else ""


def test_a_wrong_answer_has_its_probability_and_a_changed_one_two(folder: Path, noise: list[tuple[str, str]]) -> None:
    part = part_of(shown_view(folder, wrong=noise[:2]))
    assert part.count("data:image/jpeg;base64,") == 2
    assert "<bdi>glass taken for cardboard, 99 %</bdi><small><bdi><00>.png</bdi>" in part
    view = shown_view(folder, changed=noise)
    assert "- **What compression changes**: int8 and float32 differ on 30 of 500" in render_markdown(view)
    part = part_of(view)
    assert "differ on 30 of 500 hold-out images" in part
    assert "<bdi>glass</bdi><span><bdi>int8: cardboard, 75 % \u2717</bdi></span>" in part
    assert "<span><bdi>float32: glass \u2713</bdi></span><small><bdi><00>.png</bdi>" in part
    assert part.count("<figure>") == CHANGED_SHOWN
    assert f"The first {CHANGED_SHOWN}:" in part


def test_each_confusion_has_one_image_the_most_frequent_first(folder: Path, noise: list[tuple[str, str]]) -> None:
    view = shown_view(folder, noise, labels=(1, 1, 1, 1, 2, 1, 3, 2))
    first = render_html(view).partition('<details class="reasons">')[0]
    assert re.findall(r"<bdi>(\w+)</bdi> <span>→", first) == ["glass", "metal", "paper", "glass", "metal", "glass"]


def test_without_images_their_answers_are_listed_without_frames(folder: Path, noise: list[tuple[str, str]]) -> None:
    view = replace(shown_view(folder, noise[:2], noise[:2]), images=None)
    part = part_of(view)
    assert "The images are left out." in part
    assert part.count("<figcaption>") == 4
    assert 'class="photo"' not in part
    assert "data:image" not in render_html(view)


def test_the_images_of_a_classifier_add_less_than_half_a_megabyte(folder: Path, noise: list[tuple[str, str]]) -> None:
    view = shown_view(folder, noise[:24], noise)
    configuration = view.decision.pick.configuration
    other = replace(configuration, target=replace(configuration.target, threads=9))
    faster = replace(view.decision.pick, latency=Quantity(0.01, "ms", Provenance.MEASURED), configuration=other)
    plain, page = map(render_html, (shown_view(folder), replace(view, evaluations=(*view.evaluations, faster))))
    first = page.partition('<details class="reasons">')[0]
    photos = [part.count("data:image/jpeg;base64,") for part in (page, first)]
    assert photos == [48 + 6, 6], "six wrong answers are on the first screen too"
    assert first.count("<circle cx=") > first.count('class="marked"') == 1, "the pick is among the others"
    (left, right), (low, high) = Chart("", "", "", (), [("a", 2.85, 18.5), ("b", 2.86, 18.5)]).ends
    assert (right > left + 0.5, f"{low:.3g}" == f"{high:.3g}") == (True, False), "what is equal is not far apart"
    assert Chart("", "", "", (), [("a", 2.85, 0.0), ("b", 2.86, 0.0)]).ends[1] == (0.0, 1.0)
    assert len(page) - len(plain) < 500_000


def test_an_image_that_is_gone_or_has_changed_is_not_shown(judged_detectors: RunView) -> None:
    changed = judged_detectors.images / "last.png"
    changed.write_bytes(changed.read_bytes() + b"\0")
    page = without_scripts(render_html(judged_detectors))
    assert page.count("data:image/jpeg;base64,") == 2, "on the first screen, and in its section"
    assert page.count("The image is gone, or has changed.") == 2
    assert "&lt;b&gt;gone.png" in page


def test_without_such_answers_or_before_the_hold_out_is_used_no_image_is_shown(detectors: RunView) -> None:
    assert part_of(judged_view()) == ""
    assert 'id="boxes"' not in without_scripts(render_html(detectors))
