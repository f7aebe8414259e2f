"""Files among the candidates become cards of finished files; the other candidates stay."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any

import pytest

from advisor.catalog import Catalogue
from advisor.catalog._user_models import import_model
from advisor.core import TrainingName, UsageError
from advisor.engine import Images, Question, resolve, with_files
from advisor.engine._space.candidates import Candidates, require_known_classes
from advisor.engine._space.question_images import read_images
from advisor.engine._space.resolved import Resolved
from advisor.engine._space.resolving import resolve_cards
from advisor.tasks.classification import CLASSIFICATION
from tests.builders import must_fail, present
from tests.catalog.user_models.test_finished_files import SIDE, kept
from tests.datasets.folders import make
from tests.measurement import small_models

CARD = "mobilenet_v2_1.0_224"

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("own_folders")]


@contextmanager
def in_process(*_: object, **_options: object) -> Iterator[SimpleNamespace]:
    """Stand for the child that reads a user's file: its limits are not the subject here."""
    yield SimpleNamespace(call=lambda function, *given, **_limits: resolve_name(function)(*given))


@pytest.fixture(scope="module")
def own_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Settings and a cache of this module: the file becomes a card once."""
    folder = tmp_path_factory.mktemp("own")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ADVISOR_CONFIG_DIR", str(folder / "config"))
        patch.setenv("ADVISOR_CACHE_DIR", str(folder / "cache"))
        patch.delenv("ADVISOR_MIRROR", raising=False)
        patch.setattr(import_model, "ChildPool", in_process)
        yield


@pytest.fixture(scope="module")
def file(own_folders: None, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A classifier of ants, bees, cats and dogs with weights of 8 bits."""
    folder = tmp_path_factory.mktemp("file")
    return str(kept(folder, small_models.dynamic_int8(small_models.classifier(SIDE))))


def asked(*candidates: str, data: str = "photos", **options: Any) -> Resolved:
    return resolve_cards(with_files(resolve({"candidates": list(candidates), "data": data, **options})))


def test_a_file_becomes_the_name_of_a_card_in_a_catalogue_that_the_run_keeps(file: str) -> None:
    request = with_files(resolve({"candidates": [file, CARD]}))
    assert request.question.candidates == ("net", CARD)
    assert request.written["candidates"] == ["net", CARD]
    assert request.written["catalog"] == [str(path) for path in request.question.catalog]
    assert Catalogue.load(request.question.catalog)["net"].form == "dynamic_int8"


def test_beside_names_only_these_take_part_and_alone_it_leaves_the_usual_cards_in_the_search(file: str) -> None:
    resolved = asked(file, CARD)
    assert [card.name for card in resolved.cards] == ["net", CARD]
    assert resolved.cards_to_try == 2
    alone = asked(file)
    assert alone.cards[0].name == "net"
    assert {card.name for card in resolve_cards(resolve({})).cards} < {card.name for card in alone.cards}
    assert alone.cards_to_try == 1 + alone.question.of_task.cards
    names = resolve({"candidates": [CARD]})
    assert with_files(names) is names


def test_it_has_one_configuration_a_thread_count_in_its_own_form(file: str) -> None:
    resolved = asked(
        file, CARD, compressions=["float16"], training=[TrainingName.HEAD, TrainingName.FINETUNE_CACHED], threads=[1, 2]
    )
    plan = resolved.plan(Candidates(resolved.cards, dict.fromkeys(card.name for card in resolved.cards), {}))
    own = [
        (each.training, each.compression, each.target.threads) for each in plan.configurations() if each.card == "net"
    ]
    assert own == [(TrainingName.HEAD, "dynamic_int8", 1), (TrainingName.HEAD, "dynamic_int8", 2)]
    assert plan.size == len(plan.configurations()) == 2 + 2 * 2 * 2
    assert plan.forms == ("float32", "float16", "dynamic_int8")


def read(question: Question) -> Images:
    return present(read_images(question, lambda _: None))


@pytest.mark.parametrize("names", [("dog", "ant", "bee", "cat"), ("Dog", "ANT"), ("bee ", "cat")])
def test_classes_match_by_name_and_the_file_may_know_more(file: str, tmp_path: Path, names: tuple[str, ...]) -> None:
    resolved = asked(file, data=str(make(tmp_path / "photos", **dict.fromkeys(names, 20))))
    require_known_classes(resolved.question, resolved.cards, read(resolved.question))


def test_a_class_that_the_file_does_not_know_is_refused_and_so_is_another_task(file: str, tmp_path: Path) -> None:
    resolved = asked(file, data=str(make(tmp_path / "photos", ant=20, dogs=20)))
    with pytest.raises(UsageError, match=r"--candidates: net: the model has no class 'dogs'.*'dog'") as refused:
        require_known_classes(resolved.question, resolved.cards, read(resolved.question))
    assert "ant, bee, cat, dog" in refused.value.hint
    with pytest.raises(UsageError, match=f"net is a file for {CLASSIFICATION.name}"):
        asked(file, task="object-detection", data="boxes")


@pytest.mark.parametrize("name", ["ours.keras", "ours.onnx", "ours.pt2"])
def test_a_model_to_retrain_is_sent_to_the_catalogue(name: str) -> None:
    caught = must_fail(UsageError, "needs a card", with_files, resolve({"candidates": [name]}))
    assert f"advisor catalog add {name}" in caught.hint
