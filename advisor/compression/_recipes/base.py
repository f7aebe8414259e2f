"""Define a compression recipe, its inputs, and which files recipes take.

Each recipe of ``RECIPES`` (`__init__.py`) is a :class:`Recipe`, and has a row of the same name in
``FORMS`` (``core/_forms.py``). A search reads both. A ``version`` is part of the key of cached
files: raise it whenever the same input would give other bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from advisor.compression._quantization.grid import Grids
from advisor.compression._quantization.observe import Inputs, Observer
from advisor.core import UnsupportedRecipe
from advisor.tflite import LITERT_CUSTOM, Model, Tables, open_model, text_of
from advisor.training import TrainingImages

FLOAT_FILE = "start from the float file that it was made from"
BUILTIN = "export it again with builtin operators only"
ONE_GRAPH = "export one graph with one signature"
FIXED = "fix the shape of this input when you convert the model"
_STORED = frozenset({"int8", "uint8", "int16", "int4", "int2", "uint4", "int32", "float16"})
_SELECT_PREFIX = "CUSTOM:Flex"

INPUT_TYPES = ("float32", "int32", "int64", "bool")
"""Types that the inputs of a float model may have; integers are indices, such as tokens."""


def require_float(data: bytes, recipe: str, any_graph: bool = False) -> None:
    """Check that recipes can take a file: a float model of one graph with fixed shapes.

    It has at most one signature and only builtin operators. With ``any_graph`` it may have several
    graphs and signatures, and the custom operators that LiteRT has. It raises an UnsupportedRecipe
    that says why it is not, or a UsageError if the file is damaged.
    """
    for reason, hint in _list_reasons(*open_model(data), any_graph):
        raise UnsupportedRecipe(f"{recipe} does not apply: {reason}", hint)


def _list_reasons(tables: Tables, model: Model, any_graph: bool) -> Iterator[tuple[str, str]]:
    """Yield why recipes cannot take a file and what to do.

    A later reason expects that no earlier one holds.
    """
    if len(model.subgraphs) != 1 and not any_graph:
        yield f"the model has {len(model.subgraphs)} graphs", ONE_GRAPH
    if len(model.signatures) > 1 and not any_graph:
        keys = ", ".join(f"'{signature.key}'" for signature in model.signatures)
        yield f"the model has {len(model.signatures)} signatures ({keys})", ONE_GRAPH
    custom = model.list_custom_operators(LITERT_CUSTOM if any_graph else ())
    if custom:
        are_select = all(name.startswith(_SELECT_PREFIX) for name in custom)
        kind = "select TensorFlow" if are_select else "custom"
        yield f"the model has {kind} operators ({', '.join(custom[:3])})", BUILTIN
    quantized = []
    for tensor in model.tensors:
        if tensor.quantization and tensor.dtype in _STORED:
            quantized.append(tensor)
    if quantized:
        first = f"{len(quantized)} tensors, the first is '{quantized[0].name}'"
        yield (
            f"the model is quantized already ({first})",
            f"{FLOAT_FILE}; without it, add --requantize",
        )
    if any(tensor.is_sparse for tensor in model.tensors):
        yield "the model's weights are sparse", "export it again with dense weights"
    if any(tensor.dtype == "float16" and tensor.is_constant for tensor in model.tensors):
        yield "the model's weights are stored as float16 already", FLOAT_FILE
    for tensor in model.inputs:
        if tensor.dtype not in INPUT_TYPES:
            yield f"the model takes {tensor.dtype}, not {' or '.join(INPUT_TYPES)}", FLOAT_FILE
    graph = tables.subgraphs[0]
    for index in graph.inputs:
        entry = graph.tensors[index]
        # An open side of 1 is stated beside the shape alone.
        for stated in (entry.shape, entry.shapeSignature):
            sides = () if stated is None else tuple(map(int, stated))
            if any(side < 1 for side in sides):
                yield f"the shape {sides} of input '{text_of(entry.name)}' is open", FIXED


@dataclass(frozen=True, eq=False)
class RecipeInputs:
    """Inputs of a recipe besides the float file.

    Attributes:
        calibration: normalised images, float32 (n, S, S, 3), or an array for each input; None if
            there are none.
        images: the user's labelled images; None without ``--data``.
        max_drop_points: points of top-1 that a file may lose against float32; None for no limit.
        seconds: time limit of the user's for a recipe that scores or trains; it then returns the
            best result so far. None leaves only the recipe's own limit of work: equal inputs then
            give equal files.
        observer: keeps the activations on the calibration images; pass the same one for all
            recipes of a model.
        decided: notes of the same recipe on a similar model; the recipe reuses its choices.
    """

    calibration: Inputs | None = None
    images: TrainingImages | None = None
    max_drop_points: float | None = None
    seconds: float | None = None
    observer: Observer = field(default_factory=Observer)
    decided: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Compressed:
    """A compressed ``.tflite``, with the recipe's notes on its work, which JSON can hold."""

    data: bytes
    notes: Mapping[str, Any] = field(default_factory=dict)


class Needs(IntEnum):
    """Needs of a recipe besides the float file, as levels.

    Each level includes the ones before and takes longer.
    """

    FILE = 0
    CALIBRATION = 1
    SCORING = 2
    TRAINING = 3


class Recipe(ABC):
    """One way to make a float model smaller or faster.

    Attributes:
        name: as users and file names write it.
        version: raised whenever the same input would give other bytes.
        description: one line for help and reports.
        needs_calibration: the recipe reads calibration images. Of the recipes that train, only
            those that quantize activations do.
        grids: the grid that it corrects weights for; None if it corrects none.
        needs: what the recipe needs, as a level. One that trains is skipped without labelled
            images.
        after: a lighter recipe that is tried first; this one is tried only if that one loses too
            much. Empty for none.
        any_graph: it takes files of several graphs, such as loops, and custom operators,
            which stay float.
    """

    name: str
    version = 1
    description: str
    needs_calibration = False
    grids: Grids | None = None
    needs = Needs.FILE
    after = ""
    any_graph = False

    @abstractmethod
    def convert(self, model: bytes, inputs: RecipeInputs, /) -> Compressed:
        """Return the compressed file, with notes if there are any."""

    def make(self, model: bytes, inputs: RecipeInputs) -> Compressed:
        """Return the compressed file after checking that the recipe applies.

        Args:
            model: a float ``.tflite`` with fixed shapes.
            inputs: what the recipe may use.

        Raises:
            UnsupportedRecipe: the model is already quantized or has open shapes; it has custom
                operators or several graphs, and the recipe takes none; or the recipe needs
                labelled images and there are none.
            StageError: calibration images are missing or have another shape than the model's
                input.
            UsageError: the file is damaged.
        """
        require_float(model, self.name, self.any_graph)
        if self.needs is Needs.TRAINING and inputs.images is None:
            raise UnsupportedRecipe(
                f"{self.name} needs labelled images, and none were given",
                "give a folder of images with --data",
            )
        return self.convert(model, inputs)

    def apply(self, model: bytes, calibration: Inputs | None = None) -> bytes:
        """Return the compressed file without its notes; see :meth:`make`."""
        return self.make(model, RecipeInputs(calibration)).data


class Edit(Recipe):
    """A recipe that needs the float file alone, which its ``edit`` turns into another one."""

    any_graph = True

    def __init__(self, name: str, edit: Callable[[bytes], bytes], description: str) -> None:
        self.name = name
        self.description = description
        self._edit = edit

    def convert(self, model: bytes, _inputs: RecipeInputs, /) -> Compressed:
        """Return the edited file."""
        return Compressed(self._edit(model))
