"""The networks that measurements may name."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

from advisor.devices.profiles.values import DeviceProfile


def known_macs(shipped: Iterable[DeviceProfile], table: Path) -> dict[str, float | None]:
    """Return the known networks with their multiply-accumulates, None where these are not known.

    Known are the networks of the shipped features and measurements, and those of the catalogue, also of your own.

    Args:
        shipped: the shipped profiles.
        table: the CSV of the shipped features, with ``name`` and ``macs``.

    Raises:
        UsageError: your own catalogue is not valid.
    """
    from advisor.catalog.catalogue import load_catalogue

    known: dict[str, float | None] = {row.model: None for profile in shipped for row in profile.measurements}
    known |= {card.name: float(card.macs) for card in load_catalogue().values()}
    with table.open(newline="", encoding="utf-8") as file:
        return known | {row["name"]: float(row["macs"]) for row in csv.DictReader(file)}
