"""The catalogue: model cards, where their weights come from, and the Keras graphs they describe."""

from advisor.catalog.cards import Card, Preprocessing, Published
from advisor.catalog.catalogue import Catalogue, load_catalogue
from advisor.catalog.public import add, check, fetch, list_cards, show, to_frame
from advisor.downloads.files import MemberFile, WeightSource

__all__ = [
    "Card",
    "Catalogue",
    "MemberFile",
    "Preprocessing",
    "Published",
    "WeightSource",
    "add",
    "check",
    "fetch",
    "list_cards",
    "load_catalogue",
    "show",
    "to_frame",
]
