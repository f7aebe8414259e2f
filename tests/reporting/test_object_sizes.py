"""Objects by their size, as the report tells them."""

from dataclasses import replace
from typing import Any

from advisor.core import BoxFacts, ImageAnswers, ObjectsOfSize
from advisor.reporting._markdown import draw_markdown
from advisor.reporting._object_sizes import describe_sizes
from tests.builders import evaluation
from tests.tables import with_cases

Facts = dict[str, Any]
SMALL = ObjectsOfSize(0.0, 0.05, 40, 0.04, 0.4, (0.3, 0.5), 0.12, (0.05, 0.19))
LARGE = ObjectsOfSize(0.05, 1.0, 200, 0.2, 0.9, (0.85, 0.95), 0.01, (-0.02, 0.04))


def told(*rows: ObjectsOfSize, compression: str = "int8", side: int | None = 320) -> str:
    """Return what the report says of the objects of a file by size."""
    made = evaluation(compression=compression)
    card = replace(made.card_facts, input_size=side)
    answers = ImageAnswers(boxes=BoxFacts(0.4, 0.5, {}, by_size=rows))
    return draw_markdown(describe_sizes(replace(made, answers=answers, card_facts=card), "advisor predict run"))


@with_cases
def test_a_report_names_the_objects_that_are_lost_and_the_input_that_helps(sentence: str) -> None:
    assert sentence in told(SMALL, LARGE)


def test_a_file_that_loses_no_size_more_than_noise_says_so() -> None:
    said = told(replace(SMALL, lost_interval=(-0.01, 0.2)), LARGE)
    assert "int8 finds as many objects of each size as float32, as far as the images show" in said


@with_cases
def test_nothing_is_said_that_the_images_do_not_show(missing: str, small: Facts, options: Facts) -> None:
    assert told(LARGE) == "", "one range of sizes is no table"
    assert missing not in told(replace(SMALL, **small), LARGE, **options)
