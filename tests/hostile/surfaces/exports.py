"""Texts that are code somewhere, in each kind of file that is written for an app."""

import random
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.exporting import test_documents as documents
from tests.hostile.surfaces.ground import Case, Ground

MIXED = 70  # Texts of several signs
CHECKS: tuple[tuple[Any, ...], ...] = (
    (documents.test_a_program_differs_from_a_plain_one_in_its_docstring_alone,),
    *(
        (documents.test_code_for_phones_differs_from_a_plain_one_in_a_comment_alone, name)
        for name in ("android", "ios")
    ),
    (documents.test_a_header_differs_from_a_plain_one_in_its_comments_alone,),
    (documents.test_a_web_page_has_the_same_elements_and_its_facts_whole,),
)
"""What must hold for every text, and the arguments before it."""


def cases(ground: Ground) -> Iterator[Case]:
    """Yield each kind of file with each sign, and with some signs together."""
    draw = random.Random(0)
    mixed = ["".join(draw.choices(documents.SIGNS, k=draw.randint(2, 6))) for _ in range(MIXED)]
    for number, text in enumerate([*documents.SIGNS, *mixed]):
        for check, *before in CHECKS:
            name = " ".join([check.__name__, *before, str(number)])
            yield name, partial(ground.call, check.hypothesis.inner_test, *before, text)
        if text.isprintable():
            yield f"request {number}", partial(ground.call, _request, text)


def _request(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        documents.test_a_request_keeps_a_text_whole.hypothesis.inner_test(Path(folder), text)  # type: ignore[attr-defined]
