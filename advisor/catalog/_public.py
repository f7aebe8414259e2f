"""Give the public functions of ``advisor.catalog``: list, show, fetch, check and add cards.

The commands `advisor catalog ...` call them; :func:`to_frame` is for Python alone. Their names,
arguments and errors are an interface for users. ``advisor.catalog`` offers them with names for
other rooms. Heavy imports happen inside the functions, so that a command starts fast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict, Unpack

from advisor._python import speak_python
from advisor.catalog._cards import Card
from advisor.catalog._catalogue import Catalogue
from advisor.core import Option, OptionGroup, parse_count, takes_options
from advisor.store import FetchOptions

if TYPE_CHECKING:
    import pandas as pd

    from advisor.catalog._checking import Checked
    from advisor.catalog._listing import CardRow, Fetched
    from advisor.catalog._user_models.import_model import ImportedModel

__all__ = ["add", "check", "fetch", "list_cards", "show", "to_frame"]

Files = Sequence[str | Path]
Progress = Callable[[str, int, int | None], None]
Tell = Callable[[str], None]


@speak_python
def list_cards(
    *, mirror: str | None = None, catalog: Files = (), tell: Tell | None = None
) -> tuple[CardRow, ...]:
    """Return the cards with published accuracy, size and the sources of their weights.

    Args:
        mirror: folder or address that also holds weights.
        catalog: catalogue files of your own.
        tell: called with a line if a large file is read for the first time.

    Raises:
        UsageError: a file that is refused.
    """
    from advisor.catalog import _listing as listing

    return listing.list_rows(
        Catalogue.load(_list_paths(catalog), tell), FetchOptions(mirror=mirror)
    )


@speak_python
def to_frame(*, mirror: str | None = None, catalog: Files = ()) -> pd.DataFrame:
    """Return the cards of :func:`list_cards` as a table for pandas.

    Units are in the names of its columns.

    Args:
        mirror: folder or address that also holds weights.
        catalog: catalogue files of your own.

    Raises:
        UsageError: a file that is refused.
    """
    from advisor.catalog._listing import COLUMNS
    from advisor.store import build_frame

    rows = [row.to_row() for row in list_cards(mirror=mirror, catalog=catalog)]
    return build_frame(COLUMNS, rows)


@speak_python
def show(name: str, *, catalog: Files = (), tell: Tell | None = None) -> Card:
    """Return one card: counts, published figures, and the sources of its weights.

    Args:
        name: name of the card.
        catalog: catalogue files of your own.
        tell: called with a line if a large file is read for the first time.

    Raises:
        UsageError: no card has this name. The message names the most similar one.
    """
    return Catalogue.load(_list_paths(catalog), tell).card(name)


@speak_python
def fetch(
    *names: str,
    everything: bool = False,
    mirror: str | None = None,
    offline: bool = False,
    catalog: Files = (),
    progress: Progress | None = None,
) -> tuple[Fetched, ...]:
    """Fetch weights into the cache, so that later searches need no network.

    Args:
        names: names of cards, families or globs.
        everything: fetch the weights of every card.
        mirror: folder or address that is asked first.
        offline: open no connection.
        catalog: catalogue files of your own.
        progress: called with a file's name, its bytes so far, and all its bytes if their
            number is known.

    Returns:
        One result for each card: the file in the cache, or the reason why it could not be fetched.

    Raises:
        UsageError: both names and ``everything``, neither of them, or a name that no card has.
    """
    from advisor.catalog._listing import fetch_all
    from advisor.core import UsageError

    if bool(names) == everything:
        raise UsageError(
            "name the cards to fetch, or add --all",
            "for example: advisor catalog fetch mobilenet_v2",
        )
    catalogue = Catalogue.load(_list_paths(catalog))
    cards = tuple(catalogue.values()) if everything else catalogue.select(names)
    return fetch_all(cards, FetchOptions(offline=offline, mirror=mirror, progress=progress))


@speak_python
def check(*, catalog: Files = (), build: bool = False, tell: Tell | None = None) -> Checked:
    """Check every card: schema, names, hashes and published counts.

    Parameters must be equal, MACs within 2 %.

    Args:
        catalog: catalogue files of your own.
        build: also build every graph and count its parameters and MACs; this takes minutes.
        tell: called with the name of each card whose graph was built.
    """
    from advisor.catalog._checking import check_catalogue

    return check_catalogue(_list_paths(catalog), build, tell)


class AddKeywords(TypedDict, total=False):
    """The options of :func:`advisor.catalog.add`."""

    name: Annotated[
        str,
        Option(OptionGroup.OUTPUT, "NAME", "Name of the card. Default: the name of the file.", ""),
    ]
    labels: Annotated[
        str | Path,
        Option(
            OptionGroup.QUESTION,
            "FILE",
            "File with one label per line, or ``imagenet``. Default: the labels in the file.",
            "",
        ),
    ]
    mean: Annotated[
        Sequence[float],
        Option(
            OptionGroup.QUESTION,
            "NUMBERS",
            "Value subtracted from RGB 0..255: one number or three. Default: the value in the"
            " file.",
            (),
        ),
    ]
    std: Annotated[
        Sequence[float],
        Option(
            OptionGroup.QUESTION,
            "NUMBERS",
            "Value that the difference is divided by, likewise.",
            (),
        ),
    ]
    input_size: Annotated[
        int | None,
        Option(
            OptionGroup.QUESTION,
            "PIXELS",
            "Side of the input in pixels, if the model leaves it open, or to export a package's"
            " model at.",
        ),
    ]
    licence: Annotated[str, Option(OptionGroup.OUTPUT, "NAME", "Licence of the model.", "")]
    family: Annotated[str, Option(OptionGroup.OUTPUT, "NAME", "Family of the card.", "own")]
    top1: Annotated[
        float | None,
        Option(
            OptionGroup.QUESTION,
            "PERCENT",
            "Known accuracy in percent. A search without images uses it.",
        ),
    ]
    as_it_is: Annotated[
        bool,
        Option(
            OptionGroup.CANDIDATES,
            "",
            "Take a float file in its form, as quantized files always are: it is judged, never"
            " changed.",
            False,
        ),
    ]
    task: Annotated[
        str,
        Option(
            OptionGroup.QUESTION,
            "NAME",
            "What a model that ends in logits does. Default: image-classification.",
            "",
        ),
    ]
    into: Annotated[
        str | Path | None,
        Option(
            OptionGroup.OUTPUT,
            "FILE",
            "Catalogue file that takes the card. Default: your own, which every search reads.",
        ),
    ]


@speak_python
@takes_options(AddKeywords, stated=True)
def add(
    file: str | Path,
    *,
    ask: Callable[[str], str] | None = None,
    tell: Tell | None = None,
    **options: Unpack[AddKeywords],
) -> ImportedModel:
    """Make a card of your own model and check the model by running it.

    Every later search finds the card. No code in the file is run.

    Args:
        file: a ``.keras``, ``.onnx``, ``.pt2`` or ``.tflite`` file, the folder of a SavedModel, a
            handle of TensorFlow Hub, which is an http(s) address, or ``timm:NAME`` or
            ``torchvision:NAME``, whose package is then run. ``HANDLE#sha256=HEX`` is refused if
            its files have another hash.
        ask: called with ``labels``, ``mean`` or ``std`` if neither the file nor an argument gives
            the value; returns the value as text. Default: a missing value is an error.
        tell: called with a line about each step.

    Raises:
        UsageError: the file is refused, or a value is missing. Nothing is kept.
    """
    from advisor.catalog._user_models import import_model
    from advisor.catalog._user_models.handles import local_source
    from advisor.core import TASKS, UsageError

    into = options["into"]
    size = None
    if options["input_size"] is not None:
        size = parse_count("input_size", options["input_size"])
    description = import_model.ModelDescription(
        name=options["name"],
        labels=str(options["labels"]),
        mean=tuple(options["mean"]),
        std=tuple(options["std"]),
        licence=options["licence"],
        family=options["family"],
        top1=options["top1"],
    )
    if tell:
        tell(f"reading {Path(file).name}")
    finished = options["as_it_is"]
    task = options["task"]
    taking = [name for name, known in TASKS.items() if known.own_cards is not None]
    if task and task not in taking:
        raise UsageError(
            f"--task: no file of yours can be added for '{task}'", f"tasks: {', '.join(taking)}"
        )
    catalogue = Path(into) if into else None
    with local_source(file, size) as source:
        # A conversion takes minutes, and says nothing about the name.
        import_model.name_card(source.path, description, catalogue)
        with import_model.inspect(source.path, size, finished, task) as inspected:
            known = inspected.of(source)
            complete = known.ask_for_missing(description, ask)
            return import_model.add(known, complete, catalogue)


def _list_paths(catalog: Files) -> list[Path]:
    return list(map(Path, catalog))
