"""Columns and spacing of the table of an answer, as a value.

``_answer_table.py`` tries several layouts, from the fullest to the narrowest.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AnswerLayout:
    """Columns and spacing of the table:
    ``roomy`` has two spaces between columns, otherwise there is one.

    With ``origins``, rows say where their figures are from if they differ, otherwise the legend
    does. ``robust`` is the accuracy under capture conditions; ``intervals`` have both ends,
    otherwise their larger side; ``folded`` has a training recipe on a line above the compression,
    and the last part of a long name on a line below the others; ``written`` has what a document
    shows.
    """

    roomy: bool = False
    origins: bool = False
    robust: bool = False
    intervals: bool = False
    memory: bool = True
    folded: bool = False
    written: bool = False
