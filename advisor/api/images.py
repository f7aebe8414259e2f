"""Pictures of your own: what is wrong with them before anything learns from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from advisor.engine.data_check import Checked


def check_data(
    data: str | Path,
    *,
    labels: bool = True,
    card: str = "",
    catalog: Sequence[str] = (),
    offline: bool = False,
    mirror: str = "",
    say: Callable[[str], None] = lambda _text: None,
) -> Checked:
    """Say what is wrong with a set of pictures; none of them is changed.

    ::

        from advisor.api import check_data
        checked = check_data("photos")
        print([finding.message for finding in checked.findings])
        checked.write_manifest(Path("cleaned.csv"))

    Args:
        data: a folder, or a CSV or Parquet manifest.
        labels: look for wrong labels and for crops, with a network's features.
        card: the model card whose features are taken; empty for the best one that is here.
        catalog: your own catalogue files.
        offline: never open a connection.
        mirror: folder or address that holds weights, asked first.
        say: told what is being done.

    Raises:
        UsageError: nothing there, nothing that can be read as a data set, or an unknown card.
    """
    from advisor.engine.data_check import check_data as checked
    from advisor.engine.data_check.judge import Judge

    judge = Judge(card, tuple(Path(path) for path in catalog), offline, mirror) if labels else None
    return checked(Path(data), judge, say)
