"""Prepare a user's model as the float master of a card, and check it again in a search.

What opens a model runs in child processes, as an untrusted model may crash native code:
`import_model.py` names ``check_file``, ``prepare`` and ``describe`` as strings, and the stage that
converts a card calls :func:`convert_own` (``catalog/_convert.py``). What is done with a file
depends on its task: an :class:`OwnFiles` for each task that takes files. Another master for an
equal file needs a new ``VERSION`` of `import_model.py` and a new ``CONVERT_VERSION``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from advisor.catalog._cards import Card, Conversion, Preprocessing
from advisor.catalog._user_models import classifier
from advisor.catalog._user_models.classifier import load_photograph, run
from advisor.catalog._user_models.formats import as_tflite, format_of
from advisor.catalog._weights.readers import Array
from advisor.core import DEFAULT_TASK, TASKS, StageError, WeightsFile
from advisor.tflite import (
    Metadata,
    Model,
    read,
    scale_of_input,
    to_float32,
    unpack,
    with_channels_last,
    without_transposes,
)

if TYPE_CHECKING:
    from advisor.catalog._user_models.import_model import ImportedModel

MAX_DIFFERENCE = 1e-5
"""Largest difference of a probability between the given and the edited file."""


@dataclass(frozen=True)
class ModelFacts:
    """Facts of a user's model as a float ``.tflite``.

    ``input_size`` is the side of the square input in pixels, ``macs`` the multiply-accumulates of
    one image. ``features`` is the length of the vector under its classifier; None if it does not
    end in a linear layer, so that it cannot be retrained, as no detector can. ``metadata`` is
    empty where the file has none. ``form`` is its form if it keeps it, such as ``int8``; empty if
    every form can be made of it. ``scale`` is what the graph itself multiplies its input by before
    anything else, the largest of the channels; 1 where it does not scale.
    """

    input_size: int
    classes: int
    params: int
    macs: int
    features: int | None
    metadata: Metadata
    task: str = DEFAULT_TASK
    form: str = ""
    scale: float = 1.0


class OwnFiles(Protocol):
    """Functions for users' own files of a task."""

    search_options: str
    """The options that a search for the task needs, beside ``--candidates``."""

    def takes(self, model: Model, asked: bool) -> bool:
        """Return whether a file is one of the task; ``asked`` if the user names the task."""

    def prepare(self, data: bytes, name: str, target: Path, metadata: Metadata) -> ModelFacts:
        """Write the master of a float file to ``target``; ``name`` is the user's file, for errors.

        Raises:
            UsageError: it cannot be used.
        """

    def take(self, data: bytes, name: str, target: Path, metadata: Metadata) -> ModelFacts:
        """Write a file that keeps its form; as :meth:`prepare` otherwise."""

    def run(self, data: bytes, image: Array, finished: bool) -> Mapping[str, Array]:
        """Return the outputs of a prepared file for an image, by name.

        ``finished`` says that the file keeps its form.
        """

    def surest(
        self, outputs: Mapping[str, Array], facts: ModelFacts, title: str
    ) -> list[tuple[int, float]]:
        """Return the index of the surest label and its probability, if there is one.

        ``title`` is the photograph's.

        Raises:
            UsageError: the outputs are not those of the task.
        """

    def remarks(self, added: ImportedModel) -> Iterator[str]:
        """Yield remarks on a card that is not taken as it is."""


class TakesFiles(Protocol):
    """A task that takes users' own files."""

    def own_files(self) -> OwnFiles:
        """Return what is done with them."""


def own_files_of(task: str) -> OwnFiles:
    """Return what a task does with users' own files; KeyError for a name that is no task.

    The registry knows only the facts of a task: tasks are above this room.
    """
    return cast("TakesFiles", TASKS[task]).own_files()


def task_of(model: Model, asked: str = "") -> str:
    """Return the name of the task that a file is for.

    ``asked`` is the task that the user names, if any.
    """
    taking = []
    for name, task in TASKS.items():
        if task.own_cards is not None and own_files_of(name).takes(model, name == asked):
            taking.append(name)
    # The first task takes every file: a more special one that takes it too comes later.
    return taking[-1]


def check_file(file: Path, size: int | None) -> None:
    """Check ``file``, of any format, before packages are fetched for its conversion."""
    format_of(file).check(file, size)


def prepare(
    file: Path,
    size: int | None,
    target: Path,
    finished: bool,
    task: str = "",
) -> tuple[ModelFacts, Conversion | None]:
    """Write ``file``, of any of the formats, as a float model of its task; see :func:`as_tflite`.

    Constants stored as float16 become float32, which changes no answer. A quantized file keeps its
    form, a ``finished`` float file, too. ``task`` is the one that the user names, if any.
    """
    data, conversion = as_tflite(file, size)
    name = str(file)
    # The metadata is read first, because the edits below drop it.
    metadata = Metadata.read(data, name) or Metadata("", (), (), ())
    data = with_channels_last(with_shapes(data, name), name)
    keeps_form = finished or bool(classifier.list_quantized(read(data, name)))
    if not keeps_form:
        data = to_float32(data, name)
        model = read(data, name)
        if len(model.subgraphs) == len(model.signatures) == 1:
            data = without_transposes(data, name)
    model = read(data, name)
    own_files = own_files_of(task_of(model, task))
    write_master = own_files.take if keeps_form else own_files.prepare
    facts = write_master(data, name, target, metadata)
    return replace(facts, scale=scale_of_input(model)), conversion


def with_shapes(data: bytes, name: str) -> bytes:
    """Return a file whose outputs have shapes, those of the runtime where none were stated."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    if all(output.shape for output in read(data, name).outputs):
        return data
    try:
        plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        interpreter = Interpreter(
            model_content=data, num_threads=1, experimental_op_resolver_type=plain
        )
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError):
        # The checks that follow say what is wrong with the file.
        return data
    model = unpack(data, name)
    for detail in interpreter.get_tensor_details():
        tensors = model.subgraphs[0].tensors
        place = int(detail["index"])
        # The runtime adds tensors of its own behind those of the file.
        if place >= len(tensors):
            continue
        shape = tensors[place].shape
        if shape is None or not len(shape):
            tensors[place].shape = np.asarray(detail["shape"], np.int32)
    return model.pack()


PhotographAnswers = tuple[tuple[str, int, float], ...]
"""Answers to photographs: the photograph's subject, the index of the label, its probability."""


def describe(
    target: Path, metadata: Metadata, preprocessing: Preprocessing, facts: ModelFacts
) -> PhotographAnswers:
    """Write labels and normalization into the prepared file, unless it states them, and run it.

    Return its surest answer to each of three photographs, if there is one.
    """
    data = target.read_bytes()
    answers = []
    own_files = own_files_of(facts.task)
    stated = Metadata.read(data)
    wanted = (metadata.labels, metadata.mean, metadata.std)
    # A file that states the same keeps its bytes, and so its hash.
    if not stated or (stated.labels, stated.mean, stated.std) != wanted:
        data = metadata.write_into(data)
        target.write_bytes(data)
    for title, name in (
        ("a cat", "chelsea"),
        ("a cup of coffee", "coffee"),
        ("a rocket", "rocket"),
    ):
        image = load_photograph(preprocessing, facts.input_size, name)
        outputs = own_files.run(data, image, finished=bool(facts.form))
        answers += [(title, *answer) for answer in own_files.surest(outputs, facts, title)]
    return tuple(answers)


def convert_own(card: Card, weights: WeightsFile | None, path: Path) -> dict[str, Any]:
    """Write the master of a card of a user's file, and check that it computes the same."""
    data = content_of_own(card, weights)
    softmax = not classifier.sums_to_one(data, card.input_size, card.name)
    master, has_features = master_of(card, data, softmax)
    # Behind a new softmax, the numbers are not those of the file: there is nothing to compare.
    difference = 0.0
    if not softmax:
        image = load_photograph(card.preprocessing, card.input_size)
        edited = np.asarray(run(master, image)[classifier.PROBABILITIES]).reshape(-1)
        difference = float(np.abs(edited - classifier.scores_of(data, image, "the file")).max())
    if not difference <= MAX_DIFFERENCE:
        raise StageError(
            f"the edited {card.name} differs from its file by {difference:.2g} in a probability"
        )
    path.write_bytes(master)
    return {"difference": difference, "features": has_features}


def content_of_own(card: Card, weights: WeightsFile | None) -> bytes:
    """Return the file of a card of a user's own.

    StageError is raised if it is not there or is another one than the card says.
    """
    if weights is None:
        raise StageError(f"{card.name} is a file of your own, and the file is not available")
    data = weights.path.read_bytes()
    input_size, classes = classifier.shape_of(data, str(weights.path))
    if (input_size, classes) != (card.input_size, card.classes):
        raise StageError(
            f"{card.name} says input {card.input_size} and {card.classes} classes, its file"
            f" {input_size} and {classes}"
        )
    return data


def master_of(card: Card, data: bytes, softmax: bool) -> tuple[bytes, bool]:
    """Return a user's file with its outputs named, and whether it has features."""
    named = classifier.name_output(data, card.name, "SOFTMAX" if softmax else "")
    return classifier.with_features(named, card.name)
