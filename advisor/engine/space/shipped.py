"""Replace the files among the candidates of a question by cards of fixed form."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from advisor.catalog.user_models.shipped import is_file, shipped_card
from advisor.engine.question import Request


def with_files(request: Request) -> Request:
    """Return a request whose candidates are names of cards: each file is one, in a catalogue of its own.

    Raises:
        UsageError: a file is missing or cannot take part.
    """
    question = request.question
    names, catalogs = list[str](), list(question.catalog)
    for candidate in question.candidates:
        if not is_file(candidate):
            names.append(candidate)
            continue
        card, catalogue = shipped_card(Path(candidate), question.catalog)
        names.append(card.name)
        catalogs.append(catalogue)
    if len(catalogs) == len(question.catalog):
        return request
    written = {**request.written, "candidates": names, "catalog": [str(path) for path in catalogs]}
    changed = replace(question, candidates=tuple(names), catalog=tuple(dict.fromkeys(catalogs)))
    return replace(request, question=changed, written=written)
