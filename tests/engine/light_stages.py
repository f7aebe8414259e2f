"""Make and judge one candidate as a search does, without its children: in a process with the light install alone."""

from pathlib import Path

from advisor.catalog import Catalogue, fetch_weights
from advisor.core import TrainingName
from advisor.engine import VariantStages, Workload, resolve
from advisor.engine._space.question_images import read_images
from tests.builders import present
from tests.engine.pipeline.walking import materials, walk_all
from tests.makers.searches import SMALLEST


def make_candidate(photos: str, folder: str) -> None:
    """Convert the smallest card, fit a head, compress it to int8, and score and time the file."""
    card = Catalogue.load()[SMALLEST]
    images = present(read_images(resolve({"data": photos}).question, lambda _: None))
    stages = VariantStages(card, TrainingName.HEAD, "int8", Workload((TrainingName.HEAD,), ("int8",), images.counts))
    walk_all(stages.evaluation, materials(Path(folder), images, weights={card.name: fetch_weights(card)}))
