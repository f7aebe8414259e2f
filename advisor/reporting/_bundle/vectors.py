"""Make the test vectors of a bundle: images with the answers that its model gives to them.

The export calls :func:`vector_files` with the function of the task, which chooses the images and
computes the answers, mostly by :func:`choose_vectors`. ``check.py`` in the bundle runs the model
on another machine and compares. A later ``check.py`` checks earlier bundles too, so the keys of
``vectors.json`` and the layout of the pixels stay.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from advisor.reporting._bundle import check
from advisor.reporting._bundle.model import ShippedModel

if TYPE_CHECKING:
    import numpy as np
    from ai_edge_litert.interpreter import OpResolverType
    from numpy.typing import NDArray

    Pixels = NDArray[np.uint8]
    Crops = Sequence[Callable[[], Pixels]]
else:
    # A face has its names at run time too; numpy is not imported for two of them.
    Pixels = Crops = Any

VECTOR_COUNT = 6

SEED = 20
"""Seed of the crops: with another one, no bundle has the bytes that it had."""

VECTOR_TOLERANCES = (0.02, 0.05, 0.1)
"""Largest differences of a probability, a score or an edge (in shares of the image) that the
checker accepts. Other processors add in another order, and kernels of a quantized model round
differently: probabilities of an int8 MobileNetV2 differed by 0.010 between two runtimes, scores of
an int8 detector with it by 0.06 between two kernels.
"""

VECTOR_CANDIDATES = 5 * VECTOR_COUNT
"""Crops that a detector's vectors are chosen from, those with the highest scores."""

Answer = Mapping[str, object]
"""A model's answer to an image, in the form of ``vectors.json``."""

Answering = Callable[[ShippedModel, "Crops"], tuple[float, Sequence[tuple[int, Answer]]]]
"""Function from images, each made by a call as uint8 (size, size, 3), to a tolerance, and the
places and answers of at most ``VECTOR_COUNT`` of them.
"""


def draw_vector_images(side: int) -> Sequence[Callable[[], Pixels]]:
    """Return what loads each image of test vectors, uint8 (side, side, 3):
    crops of photographs in scikit-image.
    """
    from advisor.datasets import photograph_crops

    return photograph_crops(side, SEED)


def vector_files(model: ShippedModel, answering: Answering) -> dict[str, bytes]:
    """Run the model over crops of the photographs that ship with scikit-image: its test vectors.

    The user's images stay in the run, because a bundle goes to people who may not see them. There
    is a file with the pixels of each input (uint8 RGB, row by row: size x size x 3 bytes), and
    ``vectors.json`` with the expected answers and the largest difference that the checker accepts.
    """
    from advisor.isolation import redirect_errors

    images = draw_vector_images(model.size)
    with redirect_errors():  # the runtime reports there which kernels it uses
        tolerance, rows = answering(model, images)
    vectors = []
    pixels = {}
    for number, (place, answer) in enumerate(rows):
        name = f"{number:02}.rgb"
        vectors.append({"input": name, **answer})
        pixels[name] = images[place]().tobytes()
    document = {
        "schema_version": 1,
        "size": model.size,
        "layout": "uint8 RGB, row by row",
        "mean": model.mean,
        "std": model.std,
        "tolerance": tolerance,
        "vectors": vectors,
    }
    files = {"vectors.json": (json.dumps(document, indent=1) + "\n").encode(), **pixels}
    return {f"test_vectors/{name}": content for name, content in files.items()}


def make_runners(
    model: ShippedModel, images: Crops
) -> tuple[Callable[[int], list[Any]], Callable[[int], list[Any]]]:
    """Return two functions that run the model on one of the images:
    with the kernels of clients, and with others.
    """
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    from advisor.isolation import redirect_errors

    def runner(kind: OpResolverType) -> Callable[[int], list[Any]]:
        with redirect_errors():  # the runtime reports there which kernels it uses
            interpreter = Interpreter(
                model_content=model.content, num_threads=1, experimental_op_resolver_type=kind
            )
            interpreter.allocate_tensors()
        return lambda place: check.outputs(interpreter, images[place](), model.mean, model.std)

    return runner(OpResolverType.AUTO), runner(OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)


def choose_vectors(
    model: ShippedModel,
    images: Crops,
    read_answer: Callable[[list[Any]], NDArray[Any]],
    distance: Callable[[NDArray[Any], NDArray[Any]], float],
    rank: Callable[[NDArray[Any]], float],
) -> tuple[float, list[tuple[int, NDArray[Any]]]]:
    """Return a tolerance, and places and answers of at most ``VECTOR_COUNT`` images,
    those with the highest ``rank`` first.

    ``read_answer`` takes the outputs. The tolerance is the smallest one of which half contains the
    ``distance`` between the answers of two kernels in enough of :data:`VECTOR_CANDIDATES` images.
    """
    run, run_otherwise = make_runners(model, images)
    answers = [read_answer(run(place)) for place in range(len(images))]
    ranked = sorted(range(len(images)), key=lambda place: -rank(answers[place]))
    candidates = ranked[:VECTOR_CANDIDATES]
    differences = {}
    for place in candidates:
        other_answer = read_answer(run_otherwise(place))
        differences[place] = distance(answers[place], other_answer)
    for tolerance in VECTOR_TOLERANCES:
        # If even the largest tolerance leaves fewer images, the loop ends with them:
        # few vectors are better than none.
        alike = [place for place in candidates if differences[place] <= tolerance / 2]
        chosen = alike[:VECTOR_COUNT]
        if len(chosen) == VECTOR_COUNT:
            break
    return tolerance, [(place, answers[place]) for place in chosen]
