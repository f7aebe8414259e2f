"""Real weights on real photographs: every card whose weights can be had sees what is in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from advisor.catalog import load_catalogue
from advisor.catalog.build import build_model
from advisor.catalog.cards import Card
from advisor.catalog.convert import to_tflite
from advisor.catalog.weights.fetching import fetch
from advisor.core.errors import WeightsError
from advisor.downloads.files import FetchOptions, WeightsFile
from tests.requirements import skip_or_fail

pytestmark = pytest.mark.integration

CATS = (281, 282, 285)  # tabby, tiger cat, Egyptian cat
DRINKS = (504, 967, 968)  # coffee mug, espresso, cup
TEMPLES = (442, 663, 698, 832, 975)  # bell cote, monastery, palace, stupa, lakeside
TOWERS = (517, 540, 562, 657, 682, 733, 744)  # crane, drilling platform, fountain, missile, obelisk, pole, projectile

CATALOGUE = load_catalogue()
PACKAGED = [card for card in CATALOGUE.values() if any(source.kind != "url" for source in card.weights)]
QUICK = ("squeezenet_1.1_227", "squeezenet_1.1_224_onnx", "mobilenet_v1_0.25_224")


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
    [pytest.param(card, id=card.name, marks=[pytest.mark.slow] * (card.name not in QUICK)) for card in PACKAGED],
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
