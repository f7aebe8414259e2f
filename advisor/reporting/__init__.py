"""Show runs on the terminal, write them as HTML, Markdown, CSV and JSON; make the bundle to ship.

Read ``_view.py`` first (what every report reads), then ``_blocks.py`` (what a report is made of),
``_answer.py`` (an answer as blocks) and ``_files.py`` (which files are written). README.md lists
all modules. ``text`` formats figures; ``blocks`` has the parts of a report. ``_bundle/`` makes the
bundle to ship, above all of these.
"""

from typing import TYPE_CHECKING

from advisor._faces import open_face

if TYPE_CHECKING:
    from advisor.reporting import _blocks as blocks, _text as text
    from advisor.reporting._answer import print_answer
    from advisor.reporting._app_size import app_growth
    from advisor.reporting._benchmark import (
        print_benchmark,
        print_device_benchmark,
    )
    from advisor.reporting._bundle import bundle, check
    from advisor.reporting._bundle.answerer import Answerer, forms_of
    from advisor.reporting._bundle.bundle import Bundle, list_choices
    from advisor.reporting._bundle.documents import render_html, render_template
    from advisor.reporting._bundle.model import ShippedModel, artefact_of
    from advisor.reporting._bundle.photograph import PhotographAnswer, predict
    from advisor.reporting._bundle.shipping import (
        ExportedModel,
        Found,
        Page,
        Shipping,
    )
    from advisor.reporting._bundle.vectors import (
        VECTOR_CANDIDATES,
        VECTOR_COUNT,
        VECTOR_TOLERANCES,
        Crops,
        choose_vectors,
        draw_vector_images,
        make_runners,
    )
    from advisor.reporting._cache_table import print_cache
    from advisor.reporting._comparisons import (
        FIGURES,
        list_topics,
        render_comparison,
        render_reevaluations,
    )
    from advisor.reporting._compression import print_compression
    from advisor.reporting._data_check import print_data_check, render
    from advisor.reporting._files import (
        REPORT_FILES,
        Writers,
        recommendation,
        report_folder,
        write_all,
        write_own,
    )
    from advisor.reporting._foundations import on_all_images
    from advisor.reporting._frames import (
        AnswerRows,
        make_answer_rows,
        make_candidate_rows,
    )
    from advisor.reporting._html import summary_html
    from advisor.reporting._notebook import cell
    from advisor.reporting._pages import (
        content_policy,
        environment,
        json_for_script,
        trust_content,
    )
    from advisor.reporting._phrases import so_far
    from advisor.reporting._plan_table import PLAN, print_plan
    from advisor.reporting._profile import ProfileFiles, print_profile
    from advisor.reporting._risk import Risk
    from advisor.reporting._risks import list_run_risks
    from advisor.reporting._row_selection import Rows
    from advisor.reporting._run_rows import RunRow
    from advisor.reporting._runs import Runs, make_run_rows, print_runs
    from advisor.reporting._steps import continue_command
    from advisor.reporting._text import finite
    from advisor.reporting._view import RunView, make_typed_path
else:
    __getattr__, __dir__ = open_face(__name__)

__all__ = [
    "FIGURES",
    "PLAN",
    "REPORT_FILES",
    "VECTOR_CANDIDATES",
    "VECTOR_COUNT",
    "VECTOR_TOLERANCES",
    "AnswerRows",
    "Answerer",
    "Bundle",
    "Crops",
    "ExportedModel",
    "Found",
    "Page",
    "PhotographAnswer",
    "ProfileFiles",
    "Risk",
    "Rows",
    "RunRow",
    "RunView",
    "Runs",
    "ShippedModel",
    "Shipping",
    "Writers",
    "app_growth",
    "artefact_of",
    "blocks",
    "bundle",
    "cell",
    "check",
    "choose_vectors",
    "content_policy",
    "continue_command",
    "draw_vector_images",
    "environment",
    "finite",
    "forms_of",
    "json_for_script",
    "list_choices",
    "list_run_risks",
    "list_topics",
    "make_answer_rows",
    "make_candidate_rows",
    "make_run_rows",
    "make_runners",
    "make_typed_path",
    "on_all_images",
    "predict",
    "print_answer",
    "print_benchmark",
    "print_cache",
    "print_compression",
    "print_data_check",
    "print_device_benchmark",
    "print_plan",
    "print_profile",
    "print_runs",
    "recommendation",
    "render",
    "render_comparison",
    "render_html",
    "render_reevaluations",
    "render_template",
    "report_folder",
    "so_far",
    "summary_html",
    "text",
    "trust_content",
    "write_all",
    "write_own",
]
