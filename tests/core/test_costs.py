"""Tables of costs are read, and what is wrong in them is named."""

from __future__ import annotations

import pytest

from advisor.core.costs import Costs, parse_costs
from advisor.core.errors import UsageError

TABLE = "class,cat,dog\ncat,0,1\ndog,5,0\n"


def test_rows_are_true_classes_and_columns_answers() -> None:
    costs = parse_costs(TABLE)
    assert costs == Costs(("cat", "dog"), ((0, 1), (5, 0)))
    assert costs.of(("dog", "cat")) == ((0, 5), (1, 0))


def test_the_order_of_rows_and_columns_does_not_count() -> None:
    other = parse_costs("\ufeff, dog ,cat\n\n dog,0,5\ncat,1.0,0\n", "costs.csv")
    assert other.of(("cat", "dog")) == ((0, 1), (5, 0))
    assert other.text == parse_costs(TABLE).text == "class,cat,dog\ncat,0,1\ndog,5,0\n"


def test_a_text_is_read_as_it_was_written() -> None:
    costs = Costs(('a,"b"', "c\nd"), ((0, 1 / 3), (1e-6, 0)))
    assert parse_costs(costs.text) == costs


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no costs of two classes"),
        ("class,cat\ncat,0\n", "no costs of two classes"),
        ('class,"cat,dog\n', "cannot be read as CSV"),
        ("class,cat,dog\ncat,0,1\n", "a column for the class 'dog' and no row"),
        ("class,cat,dog\ncat,0,1\ndgo,1,0\n", "line 3 of 'c.csv' is for the class 'dgo', which has no column (did"),
        ("class,cat,dog\ncat,0,1\ndog,1\n", "line 3 of 'c.csv' (class 'dog') has 1 costs"),
        ("class,cat,dog\ncat,0,1,2\ndog,1,0\n", "line 2 of 'c.csv' (class 'cat') has 3 costs"),
        ("class,cat,cat\ncat,0,1\n", "two columns for the class 'cat' (line 1)"),
        ("class,cat,dog\ncat,0,1\ndog,1,0\ncat,0,1\n", "two rows for the class 'cat' (line 4)"),
        ("class,cat,\ncat,0,1\n", "a class without a name in line 1"),
        ("class,cat,dog\ncat,0,-1\ndog,1,0\n", "line 2 of 'c.csv': the answer 'dog' to the class 'cat' costs '-1'"),
        ("class,cat,dog\ncat,0,nan\ndog,1,0\n", "costs 'nan', which is not a number"),
        ("class,cat,dog\ncat,0,inf\ndog,1,0\n", "costs 'inf', which is not a number"),
        ("class,cat,dog\ncat,0,much\ndog,1,0\n", "costs 'much', which is not a number"),
        ("class,cat,dog\ncat,0,1\ndog,1,2\n", "and a right answer costs 0"),
        ("class,cat,dog\ncat,0,0\ndog,0,0\n", "all costs of 'c.csv' are 0"),
        ("class,cat,dog\ncat,0,0\ndog,1,0\n", "the answer 'dog' costs 0 for every class"),
    ],
)
def test_a_wrong_table_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_costs(text, "c.csv")
    assert message in error.value.message
    assert error.value.message.startswith("--costs: ")
    assert error.value.hint


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (("cat", "dogs"), "the images have no class 'dog' of 'c.csv' (did you mean 'dogs'?)"),
        (("cat", "dog", "fish"), "'c.csv' has no row and column for the class 'fish'"),
    ],
)
def test_the_classes_must_be_those_of_the_images(classes: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_costs(TABLE, "c.csv").of(classes)
    assert message in error.value.message
