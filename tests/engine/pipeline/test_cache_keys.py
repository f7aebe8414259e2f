"""The words in the keys of the artifact cache: one that changes would throw away what users have computed."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from advisor.catalog.catalogue import load_catalogue
from advisor.core.evaluation_facts import HeadFacts
from advisor.core.training import FINETUNE_CACHED, HEAD, HEAD_SUBSET
from advisor.datasets.dataset import Dataset, LabelledImage, fingerprint
from advisor.datasets.split import Split
from advisor.engine.pipeline.graph import VariantStages, with_all_before
from advisor.engine.pipeline.images import Images
from advisor.engine.pipeline.materials import Workload
from advisor.engine.pipeline.names import StageName
from advisor.engine.pipeline.stage import Results, Stage
from advisor.training.finetune.tuning import WEIGHTS
from tests.engine.pipeline.walking import materials
from tests.engine.plans import image_counts

CARD = load_catalogue()["mobilenet_v2_1.0_224"]
GOLDEN = Path(__file__).with_name("cache_keys.json")
TRAININGS = (HEAD_SUBSET, HEAD, FINETUNE_CACHED)


def _images() -> Images:
    made = tuple(LabelledImage(Path(f"data/{n}.jpg"), n % 2, f"{n:064x}") for n in range(12))
    dataset = Dataset(Path("data"), ("cat", "dog"), made, (), fingerprint(("cat", "dog"), made))
    return Images(dataset, Split(tuple(range(4)), tuple(range(4, 8)), tuple(range(8, 12)), 0))


class _Made(dict[Stage[Any], Any]):
    """Results of stages that were never run: files and hashes that are always the same."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._file = folder / "file"
        for name in ("file", WEIGHTS):
            (folder / name).write_text(name)

    def __missing__(self, stage: Stage[Any]) -> Any:
        if stage.name in (StageName.SCORE, StageName.FEATURES):
            return self._file
        head = HeadFacts("last_layer", 0.1, False, 0.9, 1000)
        return SimpleNamespace(sha256="0" * 64, path=self._file, file=self._file, chosen=head, facts=head, notes={})


def _keys(folder: Path) -> dict[str, list[str]]:
    workload = Workload(TRAININGS, ("float32", "int8", "float16"), image_counts(1000, 200, 250))
    given, made, found = materials(folder, _images(), weights={CARD.name: None}), _Made(folder), dict[str, list[str]]()
    for training, form in ((each, form) for each in TRAININGS for form in workload.recipes_of(each)):
        for stage in with_all_before(VariantStages(CARD, training, form, workload).evaluation):
            words = sorted(stage.inputs(given, Results(made)))
            place = f"{stage.folder} {stage.scope.detail}".strip()
            found[place] = sorted({*found.get(place, ()), *words})
    return dict(sorted(found.items()))


def test_the_keys_of_the_cache_have_the_words_that_they_had(tmp_path: Path) -> None:
    assert _keys(tmp_path) == json.loads(GOLDEN.read_text())


@pytest.mark.parametrize("stage", ["convert-3", "head-5", "finetune_cached-2", "compress-3", "timing-2"])
def test_the_golden_keys_name_the_stages_of_every_search(stage: str) -> None:
    assert stage in json.loads(GOLDEN.read_text())
