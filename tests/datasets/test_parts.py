"""Names of folders and files that mean a part of a split."""

import pytest

from advisor.datasets._parts import UNLABELLED, SplitPart, find_classes_with_parts, find_parts_of_siblings, part_of
from tests.tables import read_table

NAMES = read_table(__file__, "names_of_parts.yaml")


@pytest.mark.parametrize(("name", "part"), [(name, part) for part, names in NAMES.items() for name in names.split()])
def test_a_name_means_a_part_if_its_other_words_say_nothing(name: str, part: str) -> None:
    assert part_of(name) == part


def test_a_word_that_all_parts_share_says_nothing() -> None:
    parts = find_parts_of_siblings(["seg_train", "seg_test", "seg_pred", "docs"])
    assert parts == {"seg_train": SplitPart.TRAIN, "seg_test": SplitPart.HOLDOUT, "seg_pred": UNLABELLED}


@pytest.mark.parametrize(
    ("names", "part"), [(("train", "eval", "test"), SplitPart.VALIDATION), (("train", "eval"), SplitPart.HOLDOUT)]
)
def test_an_evaluation_is_the_validation_part_beside_a_test_part(names: tuple[str, ...], part: str) -> None:
    assert find_parts_of_siblings(names)["eval"] == part


def test_a_name_may_have_the_class_and_the_part() -> None:
    pairs = find_classes_with_parts(["train_class1", "train_class2", "test_class1", "test_class2"])
    assert pairs["test_class2"] == ("class2", SplitPart.HOLDOUT)
    assert len(pairs) == 4


@pytest.mark.parametrize("names", ["seg_train,seg_test", "test tube,train station", "train,test", "cat"])
def test_other_names_have_not_both(names: str) -> None:
    assert find_classes_with_parts(names.split(",")) == {}
