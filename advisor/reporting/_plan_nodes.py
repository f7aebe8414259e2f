"""The cells and lines of a plan about processors: which is best for each network, and how many
of its operators (nodes) run there.

``_plan_table.py`` puts them into the plan.
"""

from collections.abc import Iterator
from dataclasses import replace

from advisor.core import Provenance, plural, show_ms
from advisor.engine import Forecast, PlanView

NODES_WIDTH = 12  # Columns of a terminal that the numbers of nodes need beside the others
PROCESSOR_WIDTH = 22  # The same of the processor that is chosen

MARKS = {
    Provenance.MEASURED: "",
    Provenance.PUBLISHED: "",
    Provenance.PREDICTED: "~",
    Provenance.ESTIMATED: "?",
}
"""Marks of latencies by where they come from."""


def count_nodes(forecast: Forecast) -> str:
    """Return how many nodes run on an accelerator of all, such as ``3/630``;
    ``?`` if that is not known.

    ``11 or 630/630`` and ``? or 630/630`` are those of two drivers, of which one is used.
    """
    counts = set[int]()
    nodes = None
    for share in forecast.nodes:
        if share.delegated is not None:
            counts.add(share.delegated)
            nodes = share.nodes
    if not counts:
        return "?" if forecast.nodes else ""
    texts = list(map(str, sorted(counts)))
    if any(share.delegated is None for share in forecast.nodes):
        texts.insert(0, "?")
    return f"{' or '.join(texts)}/{nodes}"


def show_processor(forecast: Forecast) -> str:
    """Return the processor that is chosen for a file, such as ``GPU ~9.10, 31/31``.

    The latency and the nodes are those of the processor, and the form of the file stands before
    them if it is not the row's. The processor that counts stands alone, because the row has its
    latency.
    """
    (choice,) = forecast.processors
    unit = choice.unit.upper()
    same_form = choice.compression == forecast.configuration.compression
    if choice.latency is None or choice.counted:
        return unit
    mark = MARKS.get(choice.latency.provenance, "")
    form = "" if same_form else f"{choice.compression} "
    text = f"{unit} {form}{mark}{show_ms(choice.latency.value).removesuffix(' ms')}"
    nodes = count_nodes(replace(forecast, nodes=choice.nodes))
    return f"{text}, {nodes}" if nodes else text


def describe_nodes(view: PlanView) -> Iterator[str]:
    """Yield for each accelerator of a device how many files it runs whole,
    and where the counts come from.
    """
    for summary in view.node_summaries:
        start = f"Nodes on the {summary.unit.upper()} of {summary.device}"
        least = summary.least
        if not summary.files:
            yield f"{start}: not known before a measurement, because {least.reason}."
            continue
        files = plural(summary.files, "file")
        text = f"{start}: {summary.accelerator} runs {summary.whole} of {files} whole"
        if summary.least_file:
            why = f" ({least.reason})" if least.reason else ""
            text += f"; of {summary.least_file} {least.delegated} of {least.nodes} nodes{why}"
            text += ", and predictions are of whole ones"
        yield f"{text}. Computed from the graphs by {least.sources[0]}; not measured."
