"""What every form of a network costs and loses, and the same forms by TensorFlow's converter beside them.

Float files of the product's own (a head trained on TrashNet) go through ``advisor compress``: calibrated on training
pictures, scored on the hold-out, timed in turn. Needs ../shared/data/images/trashnet. ``--card NAME`` measures one
network and leaves the others' rows as they are; with forms that learn, one takes some ten minutes.
"""

import argparse
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from advisor.api import benchmark, compress, diagnose, search
from advisor.catalog import Card, Catalogue, fetch_weights
from advisor.compression import RECIPES, Needs
from advisor.core import AdvisorError, Interval
from advisor.datasets import CalibrationImages, InputSpec, choose_images
from advisor.engine import Compression, FileAgreement, RecipeResult, resolve
from advisor.engine._compress.compress import time_forms
from advisor.engine._compress.file_kinds import Classifiers
from advisor.engine._space.question_images import read_images
from advisor.isolation import CallLimits, ChildPool
from advisor.store import FetchOptions
from benchmarks import converter
from benchmarks.tables import Row, keep, kept_of_others

TRASHNET = Path(__file__).resolve().parents[2] / "shared" / "data" / "images" / "trashnet"
FIRST = "mobilenet_v2_1.0_224"
TRAINED = (FIRST, "efficientnet_lite0_224", "squeezenet_1.1_227", "mobilenet_v1_0.25_224")
"""The last one is where plain int8 loses more than the limit."""

HARD_SWISH = "mobilenet_v3_large_1.0_224"
"""Its weights are in no package index, so it has fixed-seed random ones: bytes and latency are those of the trained
network; accuracy is not measured."""

RANDOM = (
    "fixed-seed random weights: bytes and latency are those of a trained one; `rounded` leaves layers that share a "
    "bias (of zeros) as they are, which training ends"
)

CARDS = (*TRAINED, HARD_SWISH)

LIMITS = CallLimits(seconds=1800, memory_bytes=4_000_000_000)
DASH = "\u2013"


LEARN_S = 120.0
"""What each form that learns may take."""


def main() -> None:
    """Measure everything and keep both tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--card", choices=CARDS, action="append", help="this network alone; may be given several times")
    parser.add_argument("--no-learning", action="store_true", help="leave out forms that learn: most of the time")
    parser.add_argument("--no-converter", action="store_true", help="leave the converter's table as it is")
    chosen = parser.parse_args()
    cards = tuple(chosen.card or CARDS)
    if not TRASHNET.is_dir():
        print("../shared/data/images/trashnet is not here: nothing measured")
        return
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        floats = _float_files(cards, place)
        found = _compressed(floats, place, not chosen.no_learning)
        _keep(cards, found)
        if FIRST in cards and not chosen.no_converter:
            side = _side_by_side(floats[FIRST], place)
            print(keep("compression_converter", "The same forms by TensorFlow's converter", *side))


def _keep(cards: Sequence[str], found: dict[str, Compression]) -> None:
    """Write the table; rows and remarks of networks that were not measured now stay."""
    rows, remarks = kept_of_others("compression", cards)
    rows += [row for name, one in found.items() for row in _rows(name, one)]
    rows.sort(key=lambda row: CARDS.index(str(row[0])))
    remarks += [remark for name, one in found.items() for remark in _remarks(name, one)]
    print(keep("compression", "Forms of a network: what they cost and lose", _HEADER, rows, remarks))


_HEADER = (
    *("card", "form", "top-1 % (95 %)", "drop, points (95 %, paired)", "MB", "deflated MB", "zstd MB", "latency ms"),
    *("XNNPACK takes", "made in s", "reason"),
)


def _float_files(cards: Sequence[str], place: Path) -> dict[str, Path]:
    """Return the float file of each card, by the search's own stages: most of them are in its cache."""
    common = {"compressions": ["float32"], "threads": ["1"], "budget": "1000ms", "quiet": True}
    trained, random = ([card for card in cards if (card in TRAINED) is wanted] for wanted in (True, False))
    runs = [search(data=str(TRASHNET), candidates=trained, out=str(place / "trained"), **common)] if trained else []
    runs += [search(candidates=random, out=str(place / "random"), **common)] if random else []
    return {row.configuration.card: run.path / row.artefact for run in runs for row in run.evaluations if row.artefact}


def _compressed(floats: dict[str, Path], place: Path, learning: bool) -> dict[str, Compression]:
    """Make and score the forms of two cards at a time; time them when nothing else runs."""

    def one(card: str) -> Compression:
        images = {"data": TRASHNET} if card in TRAINED else {"calibration": TRASHNET}
        limit = {"max_drop_points": 0.5} if card in TRAINED else {}
        # What chooses by half of the hold-out is asked for by itself: the others are scored on all of it.
        asked = [names for names in _names(card, learning) if names]
        made = [
            compress(floats[card], names, to=place / card, latency=False, learn_s=LEARN_S, **images, **limit)
            for names in asked
        ]
        return _joined(made)

    with ThreadPoolExecutor(2) as pool:
        made = dict(zip(floats, pool.map(one, floats), strict=True))
    return {card: _timed(found) for card, found in made.items()}


def _joined(made: Sequence[Compression]) -> Compression:
    """Return several answers about one float file as one, the later ones' forms after the first's."""
    first, *others = made
    said = [f"{', '.join(form.recipe for form in one.forms[1:])}: scored on {one.scored}" for one in others]
    forms = [form for one in others for form in one.forms[1:]]
    return replace(first, forms=(*first.forms, *forms), notes=(*first.notes, *said))


def _names(card: str, learning: bool) -> tuple[list[str], list[str]]:
    """Return the forms of a card, those that choose by pictures apart.

    int16x8 with its slow kernels is one of the first card's only, and what needs labels of those that have them.
    """
    asked = [
        recipe
        for recipe in RECIPES
        if recipe.name != "float32"
        and (card == FIRST or recipe.name != "int16x8")
        and (learning or recipe.needs < Needs.TRAINING)
        and (card in TRAINED or recipe.needs < Needs.SCORING)
    ]
    apart, others = ([one.name for one in asked if (one.needs == Needs.SCORING) is wanted] for wanted in (True, False))
    return others, apart


def _timed(found: Compression) -> Compression:
    forms, notes = time_forms(list(found.forms), print)
    return replace(found, forms=tuple(forms), notes=(*found.notes, *notes))


def _rows(card: str, found: Compression) -> list[Row]:
    return [_row(card, form, found) for form in found.forms]


def _row(card: str, form: RecipeResult, found: Compression) -> Row:
    reason = _reason(form, found)
    if form.sizes is None or form.taken is None:
        return (card, form.recipe, *[DASH] * 8, f"{form.status}: {reason}")
    sizes = (form.sizes.size_bytes, form.sizes.download_bytes, form.sizes.download_zstd_bytes)
    speed = f"{form.speed.latency_ms:.2f} ({form.speed.low:.2f}{DASH}{form.speed.high:.2f})" if form.speed else DASH
    taken = f"{form.taken.taken} of {form.taken.operators}"
    megabytes = (f"{size / 1e6:.2f}" for size in sizes)
    return (card, form.recipe, *_accuracy(form), *megabytes, speed, taken, f"{form.seconds:.1f}", reason)


def _accuracy(form: RecipeResult) -> tuple[str, str]:
    agreement = form.agreement
    if agreement is None:
        return DASH, DASH
    if agreement.accuracy is None or agreement.drop is None:
        noise = "alike" if agreement.snr_db is None else f"SNR {agreement.snr_db:.0f} dB"
        return f"random weights; as float {100 * agreement.share.value:.1f}, {noise}", DASH
    return _percent(agreement.accuracy), DASH if form.recipe == "float32" else _percent(agreement.drop)


def _percent(interval: Interval) -> str:
    low, high = 100 * interval.low, 100 * interval.high
    return f"{100 * interval.value:.1f} ({low:.1f} to {high:.1f})"


def _reason(form: RecipeResult, found: Compression) -> str:
    """Say why a form is not there, what it left in float, why it loses, or why it is slow."""
    said = [form.reason, form.notes_text]
    if form.agreement and form.agreement.drop and form.agreement.drop.low > 0:
        said.append(_blame(form, found))
    if form.taken and form.taken.left and (form.taken.share < 1 or form.taken.pieces > 1):
        reason, count = next(iter(form.taken.left.items()))
        said.append(f"falls back, in {form.taken.pieces} pieces: {reason} ({count}x)")
    return "; ".join(part for part in said if part)


def _blame(form: RecipeResult, found: Compression) -> str:
    try:
        verdict = diagnose(form.path, found.model, calibration=TRASHNET).verdict
    except AdvisorError as error:
        return error.message
    return verdict[1] if len(verdict) > 1 else ""


def _remarks(card: str, found: Compression) -> list[str]:
    """Return what the reader must know of a network's rows, each beginning with its name."""
    said = [
        f"scored on {found.scored}, calibrated on {found.calibration}; one thread, timed in turn, {_quiet(found)}",
        *([RANDOM] * (card not in TRAINED)),
        *_learnt(card, found),
        *_rounded(found),
        *found.notes,
    ]
    return [f"{card}: {remark}".replace(str(TRASHNET), "TrashNet") for remark in said]


def _quiet(found: Compression) -> str:
    verdicts = {form.speed.verdict for form in found.forms if form.speed}
    return "the machine quiet" if verdicts == {"stable"} else f"the machine busy ({', '.join(sorted(verdicts))})"


def _learnt(card: str, found: Compression) -> list[str]:
    if card not in TRAINED:
        return []
    names = {recipe.name for recipe in RECIPES if recipe.needs is Needs.TRAINING}
    if names <= {form.recipe for form in found.forms}:
        limit = f"work towards --max-drop {found.max_drop_points:g}pt"
        return [f"forms that learn {limit}, at most {LEARN_S:.0f} s each"]
    return ["forms that learn were left out of this run (--no-learning)"]


def _rounded(found: Compression) -> list[str]:
    by_name = {form.recipe: form for form in found.forms}
    rounded, int8 = by_name["rounded"].sizes, by_name["int8"].sizes
    if rounded is None or int8 is None:
        return []
    deflated = rounded.download_bytes / int8.download_bytes - 1
    zstd = rounded.download_zstd_bytes / int8.download_zstd_bytes - 1
    return [f"`rounded` against int8, to reach 10 %: deflated {deflated:+.1%}, zstd {zstd:+.1%}"]


def _side_by_side(model: Path, place: Path) -> tuple[Sequence[str], list[Row], list[str]]:
    """Make the forms by the recipes and by the converter, each in a process of one thread; compare both int8 files."""
    card = Catalogue.load(())[FIRST]
    images = read_images(resolve({"data": str(TRASHNET), "budget": "1s"}).question, print)
    assert images is not None, "data was given"
    parts, everything = images.split, images.dataset.images
    labels = [everything[index].label for index in parts.train]
    calibration = [everything[parts.train[index]].path for index in choose_images(labels, CalibrationImages.USUAL, 0)]
    weights = fetch_weights(card, FetchOptions())
    with ChildPool(place / "converter.log", {"PYTHONPATH": str(Path(__file__).parents[1])}) as pool:
        job = converter.__name__
        ours = pool.call(f"{job}:ours", model, calibration, card, place, limits=LIMITS)
        theirs = pool.call(f"{job}:theirs", model, weights, calibration, card, place, limits=LIMITS)
    rows: list[Row] = [
        (name, f"{ours[name]:.2f}", f"{theirs[name]:.1f}" if name in theirs else DASH) for name in converter.OURS
    ]
    total, shared = sum(ours.values()), sum(ours[name] for name in ("pictures", *converter.THEIRS))
    rows.append(("reading 100 pictures", f"{ours['pictures']:.2f}", "in each form"))
    rows.append(("all eight", f"{total:.1f}", DASH))
    rows.append(("the six that both make", f"{shared:.1f}", f"{sum(theirs.values()):.1f}"))
    holdout = [everything[index] for index in parts.holdout]
    truth = [image.label for image in holdout]
    agreement = _agreement(place, [image.path for image in holdout], truth, card)
    remarks = [
        f"to reach: all eight under 20 s of one core ({total:.1f} s), at least 4 times faster than the converter "
        f"({sum(theirs.values()) / shared:.1f} times on the six that both make)",
        f"int8 on the hold-out ({len(truth)} pictures): {_accuracy_of(agreement)}; to reach within 0.3 points",
        f"int8, timed in turn: {_ratio(place)}; to reach within 5 %",
    ]
    return ("form", "recipe, s of one core", "converter, s of one core"), rows, remarks


def _agreement(place: Path, images: list[Path], labels: list[int], card: Card) -> FileAgreement:
    """Hold our int8 file's answers against the converter's, as a form against its origin."""
    view = InputSpec(card.input_size, card.preprocessing.mean, card.preprocessing.std)
    kind = Classifiers()
    ours, theirs = (kind.answers(place / f"{who}-int8.tflite", images, view, 0) for who in ("ours", "theirs"))
    return kind.compare(ours, theirs, labels)


def _accuracy_of(agreement: FileAgreement) -> str:
    assert agreement.accuracy is not None and agreement.drop is not None, "labels were given"  # noqa: PT018
    theirs = 100 * (agreement.accuracy.value + agreement.drop.value)
    return (
        f"ours {100 * agreement.accuracy.value:.2f} %, the converter's {theirs:.2f} % (ours loses "
        f"{_percent(agreement.drop)} points), the same answer on {100 * agreement.share.value:.1f} %"
    )


def _ratio(place: Path) -> str:
    files = [place / f"{who}-int8.tflite" for who in ("theirs", "ours")]
    ratio = benchmark(*files, effort="quick", pipeline=False, force=True).ratios[0]
    return f"ours takes {ratio.ratio:.3f} times the converter's ({ratio.low:.3f}{DASH}{ratio.high:.3f})"


if __name__ == "__main__":
    main()
