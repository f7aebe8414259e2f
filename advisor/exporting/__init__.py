"""The bundle to ship: the model, its card, code for apps, and test vectors.

Read ``_bundle.py`` first, then ``_shipping.py`` (what a task or an integration adds). The README
of this folder lists the other modules. ``check.py`` is a program: it is copied into every bundle.
"""

from typing import TYPE_CHECKING

from advisor._faces import open_face

if TYPE_CHECKING:
    from advisor.exporting import _bundle as bundle, check
    from advisor.exporting._answerer import Answerer, forms_of
    from advisor.exporting._bundle import Bundle, list_choices
    from advisor.exporting._documents import render_html, render_template
    from advisor.exporting._model import ShippedModel, artefact_of, prepare_model
    from advisor.exporting._photograph import PhotographAnswer, predict
    from advisor.exporting._shipping import (
        ExportedModel,
        Found,
        Page,
        Shipping,
        make_exported_model,
    )
    from advisor.exporting._vectors import (
        VECTOR_CANDIDATES,
        VECTOR_COUNT,
        VECTOR_TOLERANCES,
        Crops,
        choose_vectors,
        draw_vector_images,
        make_runners,
    )
else:
    __getattr__, __dir__ = open_face(__name__)

__all__ = [
    "VECTOR_CANDIDATES",
    "VECTOR_COUNT",
    "VECTOR_TOLERANCES",
    "Answerer",
    "Bundle",
    "Crops",
    "ExportedModel",
    "Found",
    "Page",
    "PhotographAnswer",
    "ShippedModel",
    "Shipping",
    "artefact_of",
    "bundle",
    "check",
    "choose_vectors",
    "draw_vector_images",
    "forms_of",
    "list_choices",
    "make_exported_model",
    "make_runners",
    "predict",
    "prepare_model",
    "render_html",
    "render_template",
]
