"""Wanted shares for all classes and for single ones, as a user writes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.core.errors import UsageError
from advisor.core.guarantees import Guarantees, Shares
from advisor.engine.question import require_classes, resolve
from advisor.engine.question.guarantees import parse_guarantees
from advisor.engine.space.images import read_images
from tests.engine.conftest import write_photos


def precision(*texts: str) -> Shares:
    return parse_guarantees(texts, (), "").precision


def test_a_share_is_for_all_classes_or_for_one_by_name() -> None:
    assert precision("95%") == Shares(0.95)
    assert precision("95%,trash=90%") == precision("trash=90%", "95%") == Shares(0.95, {"trash": 0.9})
    assert precision("trash = 90 %, glass=80%") == Shares(None, {"trash": 0.9, "glass": 0.8})
    assert precision() == precision("") == Shares()


@pytest.mark.parametrize("name", ["a=b", "salt, pepper", "two words", "50% wool", "=", ",", "Größe"])
def test_a_class_may_hold_the_characters_that_divide(name: str) -> None:
    assert precision(f"95%,{name}=90%", "other=80%") == Shares(0.95, {name: 0.9, "other": 0.8})


@given(st.text(st.characters(exclude_characters="%", exclude_categories=["Z", "C"]), min_size=1))
def test_any_name_without_a_percent_sign_is_read(name: str) -> None:
    assert precision(f"{name}=90%").by_class == {name: 0.9}


def test_a_class_has_its_own_share_before_that_of_all() -> None:
    shares = Shares(0.9, {"trash": 0.95})
    assert (shares.of("trash"), shares.of("glass"), Shares().of("glass")) == (0.95, 0.9, None)
    assert (bool(shares), bool(Shares())) == (True, False)
    assert Guarantees(recall=shares, coverage=0.8).options == ("--min-recall", "--min-coverage")


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["trash=90%", "trash=95%"], "--min-precision: a share for 'trash' is given twice"),
        (["90%,95%"], "--min-precision: a share for all classes is given twice"),
        (["trash=101%"], "--min-precision: '101%' is above 100%"),
        (["trash=100%"], "--min-precision: '100%' is not between 50% and 99.5%"),
        (["trash=0%"], "--min-precision: '0%' is not above zero"),
        (["trash=90"], "--min-precision: '90' has no unit"),
        (["trash"], "--min-precision: 'trash' is not a number with a unit"),
        (["trash="], "--min-precision: '' is not a number with a unit"),
    ],
)
def test_what_cannot_be_guaranteed_is_refused(texts: list[str], words: str) -> None:
    with pytest.raises(UsageError) as refused:
        precision(*texts)
    assert refused.value.message == words
    assert refused.value.hint


@pytest.mark.parametrize(("text", "words"), [("0%", "not above zero"), ("100%", "not between 1% and 99.5%")])
def test_a_coverage_that_cannot_be_guaranteed_is_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_guarantees((), (), text)


@pytest.mark.parametrize("option", ["min_precision", "min_recall"])
def test_a_class_that_no_image_has_is_refused_with_the_nearest(option: str, tmp_path: Path) -> None:
    write_photos(tmp_path)
    question = resolve({"data": str(tmp_path), option: ["astronut=90%"]}).question
    with pytest.raises(UsageError, match="unknown class 'astronut'") as refused:
        read_images(question, lambda _: None)
    assert refused.value.message.startswith(f"--{option.replace('_', '-')}: ")
    assert "'astronaut'" in refused.value.message
    assert refused.value.hint.startswith("classes: ")


def test_known_classes_are_accepted() -> None:
    require_classes(Guarantees(Shares(0.9, {"a": 0.9}), Shares(None, {"b": 0.9})), ("a", "b"))
