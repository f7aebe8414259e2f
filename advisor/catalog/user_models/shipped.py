"""Make a card of a file that a search names by its path: what the user ships today."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from advisor.catalog.cards import Card
from advisor.catalog.catalogue import load_catalogue
from advisor.catalog.user_models.description import ModelDescription, missing
from advisor.catalog.user_models.import_model import add, inspect
from advisor.core.errors import UsageError
from advisor.store import cache_root
from advisor.store.files import sha256_file

SUFFIX = ".tflite"
FAMILY = "shipped"
VERSION = 1
"""Raised when the same file would become another card."""


def is_file(candidate: str) -> bool:
    """Return whether a candidate is the path of a file, not the name of a card."""
    return candidate.endswith(SUFFIX)


def shipped_card(file: Path, catalogs: Sequence[Path] = ()) -> tuple[Card, Path]:
    """Return a card of a finished file for a ``.tflite`` classifier, and the catalogue file that has it.

    A copy of the file and the catalogue are kept in the cache, by the hash of the file.

    Args:
        file: the file, with labels and normalisation in its metadata.
        catalogs: the user's other catalogue files, whose names are taken.

    Raises:
        UsageError: the file is missing, is no image classifier, or does not state its labels and normalisation.
    """
    if not file.is_file():
        raise UsageError(
            f"--candidates: there is no file '{file}'", "give the path of a .tflite file, or a card's name"
        )
    name = _name(file, catalogs)
    catalogue = cache_root() / "shipped" / f"{sha256_file(file)[:32]}-{VERSION}-{name}" / "catalog.yaml"
    if not catalogue.is_file():
        shutil.rmtree(catalogue.parent, ignore_errors=True)
        catalogue.parent.mkdir(parents=True)
        try:
            _add(file, ModelDescription(name=name, family=FAMILY), catalogue)
        except UsageError as error:
            shutil.rmtree(catalogue.parent, ignore_errors=True)
            raise UsageError(f"--candidates: {error.message}", error.hint) from None
    return load_catalogue([*catalogs, catalogue]).card(name), catalogue


def _add(file: Path, given: ModelDescription, catalogue: Path) -> None:
    with inspect(file, finished=True) as inspected:
        lacking = missing(inspected, given)
        if lacking:
            raise UsageError(
                f"{file} does not say its {', '.join(lacking)}",
                f"add it once, and name the card: advisor catalog add {file} --as-it-is --labels labels.txt "
                "--mean 127.5 --std 127.5",
            )
        add(inspected, given, catalogue)


def _name(file: Path, catalogs: Sequence[Path]) -> str:
    """Return the file's name as the name of a card, with a suffix where a card has it."""
    stem = re.sub(r"[^A-Za-z0-9_.+-]+", "_", file.resolve().stem).strip("_.+-")[:100] or FAMILY
    return f"{stem}-{FAMILY}" if stem in load_catalogue(catalogs) else stem
