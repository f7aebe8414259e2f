"""Keep the catalogue: model cards, where their weights come from, and the graphs they describe.

::

    import advisor
    for row in advisor.catalog.list_cards():
        if row.card.family == "mobilenet_v2" and row.card.macs < 300e6:
            print(row.card.name, row.top1, row.here)

``list_cards``, ``show``, ``fetch``, ``check``, ``add`` and ``to_frame`` are public functions; the
other names are for other rooms. Read ``_cards.py`` first (a card as a value), then
``_catalogue.py`` (find and read cards), ``_weights/fetching.py`` and ``_convert.py`` (a card
becomes a float file). ``_user_models/`` makes cards of users' models.
"""

from typing import TYPE_CHECKING

from advisor._faces import open_face

if TYPE_CHECKING:
    from advisor.catalog import _listing as listing
    from advisor.catalog._cards import Card, Conversion, Preprocessing, Published
    from advisor.catalog._catalogue import (
        Catalogue,
        config_root,
        read_published_labels,
        user_catalogue_file,
    )
    from advisor.catalog._checking import Checked
    from advisor.catalog._convert import CONVERT_VERSION, build_model, convert
    from advisor.catalog._detector import build_detector
    from advisor.catalog._graph_file import read_operators
    from advisor.catalog._public import add, check, fetch, list_cards, show, to_frame
    from advisor.catalog._user_models import classifier
    from advisor.catalog._user_models.classifier import run
    from advisor.catalog._user_models.import_model import (
        SUFFIX,
        ImportedModel,
        make_shipped_card,
        warn_of_scale,
    )
    from advisor.catalog._user_models.master import (
        ModelFacts,
        OwnFiles,
        own_files_of,
        task_of,
    )
    from advisor.catalog._weights.fetching import all_missing, fetch_weights, locate_weights
    from advisor.catalog._weights.readers import Array
    from advisor.store import MemberFile, WeightSource
else:
    __getattr__, __dir__ = open_face(__name__)

__all__ = [
    "CONVERT_VERSION",
    "SUFFIX",
    "Array",
    "Card",
    "Catalogue",
    "Checked",
    "Conversion",
    "ImportedModel",
    "MemberFile",
    "ModelFacts",
    "OwnFiles",
    "Preprocessing",
    "Published",
    "WeightSource",
    "add",
    "all_missing",
    "build_detector",
    "build_model",
    "check",
    "classifier",
    "config_root",
    "convert",
    "fetch",
    "fetch_weights",
    "list_cards",
    "listing",
    "locate_weights",
    "make_shipped_card",
    "own_files_of",
    "read_operators",
    "read_published_labels",
    "run",
    "show",
    "task_of",
    "to_frame",
    "user_catalogue_file",
    "warn_of_scale",
]
