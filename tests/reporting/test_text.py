"""Untrusted text, wherever it goes."""

from __future__ import annotations

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from advisor.core.quantity import Provenance, Quantity
from advisor.core.statistics import Interval
from advisor.reporting.templating import json_for_script
from advisor.reporting.text import bounds, plain, points, share, spreadsheet

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(values)
def test_json_reads_back_and_holds_no_sign_of_html(value: object) -> None:
    text = json_for_script(value)

    assert json.loads(text) == value
    assert not set(text) & set("<>&\u2028\u2029")


@given(st.text())
def test_plain_text_is_one_line_without_control_characters(text: str) -> None:
    shown = plain(text)

    assert not {char for char in shown if unicodedata.category(char) in ("Cc", "Cf", "Cs")} - {"\u200c", "\u200d"}
    assert len(shown.splitlines()) <= 1


def test_joiners_that_scripts_need_are_kept() -> None:
    assert plain("می\u200cخواهم") == "می\u200cخواهم"


@given(st.text())
def test_cell_never_starts_as_a_formula(text: str) -> None:
    assert str(spreadsheet(text))[:1] not in ("=", "+", "-", "@", "\t", "\r")


def test_a_loss_that_rounds_to_zero_has_no_sign() -> None:
    assert [points(Quantity(value, "points", Provenance.MEASURED)) for value in (-0.03, 0.0, -0.3)] == [
        "0.0",
        "0.0",
        "-0.3",
    ]


def test_a_share_has_its_interval_in_percent_and_other_values_as_many_digits_as_wanted() -> None:
    auroc = Interval(0.831, 0.792, 0.864)
    assert share(auroc) == "83.1 (79.2\u201386.4)"
    assert bounds(auroc, 2) == "0.83 (0.79\u20130.86)"
