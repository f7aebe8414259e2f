"""The model cards as functions: list them, show one, fetch weights, check the files, add a model of your own.

::

    from advisor.api import catalog
    for row in catalog.list_cards(family=["mobilenet_v2"], max_macs="300M"):
        print(row.card.name, row.top1, row.here)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from advisor.catalog.cards import Card
    from advisor.catalog.checking import Checked
    from advisor.catalog.fetch_all import Fetched
    from advisor.catalog.listing import Row
    from advisor.catalog.user_models.import_model import Added

Files = Sequence[str | Path]
Progress = Callable[[str, int, int | None], None]
Tell = Callable[[str], None]


def list_cards(
    *,
    family: Sequence[str] = (),
    max_params: float | str | None = None,
    max_macs: float | str | None = None,
    licence: str = "",
    available: bool = False,
    mirror: str | None = None,
    catalog: Files = (),
    tell: Tell | None = None,
) -> tuple[Row, ...]:
    """Return the cards with published accuracy, size and where their weights come from.

    Args:
        family: only these families.
        max_params: parameters at most: a number, or text such as ``5M``.
        max_macs: multiply-accumulates at most, likewise.
        licence: only this licence; globs such as ``apache*`` are taken.
        available: only cards whose weights are on this machine.
        mirror: folder or address that holds weights too.
        catalog: catalogue files of your own.
        tell: told of a large file that is read for the first time.

    Raises:
        UsageError: an unknown family or licence, a figure that is not valid, or a file that is refused.
    """
    from advisor.catalog import listing
    from advisor.catalog.catalogue import load_catalogue
    from advisor.catalog.weights.options import FetchOptions

    wanted = listing.Wanted(
        families=tuple(family),
        max_params=_limit(max_params, "--max-params"),
        max_macs=_limit(max_macs, "--max-macs"),
        licence=licence,
        available=available,
    )
    return listing.rows(load_catalogue(_paths(catalog), tell), wanted, FetchOptions(mirror=mirror))


def show(name: str, *, catalog: Files = (), tell: Tell | None = None) -> Card:
    """Return one card: counts, published figures with their sources, and every place of its weights.

    Raises:
        UsageError: no card has this name; the nearest is given.
    """
    from advisor.catalog.catalogue import load_catalogue

    return load_catalogue(_paths(catalog), tell).card(name)


def fetch(
    *names: str,
    everything: bool = False,
    mirror: str | None = None,
    offline: bool = False,
    catalog: Files = (),
    progress: Progress | None = None,
) -> tuple[Fetched, ...]:
    """Fill the cache with weights, so that later searches need no network.

    Args:
        names: names, families or globs.
        everything: every card.
        mirror: folder or address that is asked first.
        offline: open no connection.
        catalog: catalogue files of your own.
        progress: told the file's name, its bytes so far and in all where that is known.

    Returns:
        What became of each card: the file in the cache, or why it could not be had.

    Raises:
        UsageError: names and ``everything``, neither of them, or a name that no card has.
    """
    from advisor.catalog.catalogue import load_catalogue
    from advisor.catalog.fetch_all import fetch_all
    from advisor.catalog.weights import FetchOptions
    from advisor.core.errors import UsageError

    if bool(names) == everything:
        raise UsageError("name the cards to fetch, or say --all", "for example: advisor catalog fetch mobilenet_v2")
    catalogue = load_catalogue(_paths(catalog))
    cards = tuple(catalogue.values()) if everything else catalogue.select(names)
    return fetch_all(cards, FetchOptions(offline=offline, mirror=mirror, progress=progress))


def check(*, catalog: Files = (), build: bool = False, tell: Tell | None = None) -> Checked:
    """Check every card: schema, names, hashes, and published counts (parameters equal, MACs within 2 %).

    Args:
        catalog: catalogue files of your own.
        build: build every graph too and count it; that takes minutes.
        tell: told the name of each card that was built.
    """
    from advisor.catalog.checking import check_catalogue

    return check_catalogue(_paths(catalog), build, tell)


def add(
    file: str | Path,
    *,
    name: str = "",
    labels: str | Path = "",
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    input_size: int | None = None,
    licence: str = "",
    family: str = "own",
    top1: float | None = None,
    into: str | Path | None = None,
) -> Added:
    """Make a model of your own a card, checked by running it; every search then finds it.

    Args:
        file: a ``.keras`` or ``.tflite`` file, or the folder of a SavedModel. No code in it is run.
        name: of the card; by default the file's.
        labels: file with one label a line, or ``imagenet``; by default what the file says.
        mean: subtracted from RGB 0..255: one number or three; by default what the file says.
        std: what the difference is divided by, likewise.
        input_size: side of the input where the model leaves it open.
        licence: of the model.
        family: of the card.
        top1: its known accuracy in percent, which a search without pictures quotes.
        into: catalogue file that takes the card; by default your own, which every search reads.

    Raises:
        UsageError: the file is refused, or something is not said; nothing is kept then.
    """
    from advisor.catalog.user_models import import_model
    from advisor.catalog.user_models.description import Given

    given = Given(name, str(labels), tuple(mean), tuple(std), licence, family, top1)
    with import_model.inspect(Path(file), input_size) as inspected:
        return import_model.add(inspected, given, Path(into) if into else None)


def _limit(value: float | str | None, option: str) -> float | None:
    from advisor.catalog import listing

    return listing.count(value, option) if isinstance(value, str) else value


def _paths(catalog: Files) -> list[Path]:
    return [Path(path) for path in catalog]
