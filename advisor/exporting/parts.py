"""Parts of a bundle that integrations make, such as a web page: what they get, and what they offer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from advisor.core.errors import UsageError
from advisor.core.evaluation import Evaluation
from advisor.core.integrations import integration, registered
from advisor.engine.history.loaded_run import LoadedRun
from advisor.exporting.model import ShippedModel
from advisor.exporting.shipping import Shipping
from advisor.store.integrity import artefact_problem
from advisor.tflite.metadata import Metadata, read_metadata

PARTS = "advisor.bundle_parts"
"""Entry points of :class:`BundlePart`: modules or objects, by the name of the target."""


@dataclass(frozen=True)
class ExportedModel:
    """The model that a bundle exports, with its run.

    Attributes:
        run: the run.
        shipping: content of a bundle of the run's task.
        evaluation: the exported evaluation.
        model: the shipped model.
        artefact: the file as it was measured.
    """

    run: LoadedRun
    shipping: Shipping
    evaluation: Evaluation
    model: ShippedModel
    artefact: bytes

    @property
    def metadata(self) -> Metadata:
        """The metadata of the file, which describe its input."""
        found = read_metadata(self.artefact)
        assert found is not None, "prepare() refused a model that does not describe itself"
        return found


class BundlePart(Protocol):
    """Files of a bundle in the folder of the target's name."""

    CONTENT: str
    """Description of the files in the bundle's README; the words of the task are filled in."""

    WITH_UNKNOWN_CLASS: bool
    """The files can have a class for unknown things."""

    def check(self, shipping: Shipping) -> None:
        """Raise a ``UsageError`` if the task has no such files, or a package is not installed."""

    def files(self, exported: ExportedModel) -> Mapping[str, bytes]:
        """Return the files by their paths within the bundle.

        Raises:
            UsageError: the files cannot be made of this model.
        """


def parts_of(targets: Sequence[str]) -> dict[str, BundlePart]:
    """Return the parts among some targets, in alphabetical order."""
    return {name: integration(PARTS, name) for name in registered(PARTS) if name in targets}


def artefact_of(run: LoadedRun, evaluation: Evaluation) -> bytes:
    """Return the file of an evaluation.

    Raises:
        UsageError: it is missing or was changed, or it was measured without its weights.
    """
    problem = artefact_problem(run.folder, evaluation)
    if problem is not None:
        raise UsageError(
            f"'{run.folder.path}': {problem}",
            "advisor export RUN --list shows the others; or search again, which takes what it can from the cache",
        )
    if evaluation.card_facts.lacks_weights:
        card = evaluation.configuration.card
        raise UsageError(
            f"{card} was measured without its weights: there is nothing to ship yet",
            f"get them first (advisor catalog show {card} lists their sources), then search again",
        )
    return (run.folder.path / evaluation.artefact).read_bytes()
