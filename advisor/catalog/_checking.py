"""Check every card against its schema, its hashes and its published figures.

`advisor catalog check` calls :func:`check_catalogue`; with ``--build`` it also counts each graph
in a child process, which imports ``count_graph`` by its name.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from math import prod
from pathlib import Path

from advisor.catalog._cards import GRAPH_FILE, Card, Published
from advisor.catalog._catalogue import (
    CardFile,
    catalogue_paths,
    find_repeated_names,
    read_catalogue_file,
)
from advisor.core import AdvisorError, StageError, UsageError, nearest, require_training
from advisor.isolation import CallLimits, ChildPool
from advisor.store import DownloadCache, FetchOptions, WeightSource, sha256_file

# Sources differ by biases, additions and pooling, which some count as MACs.
MACS_TOLERANCE = 0.02
CHILDREN = 2
# A note explains a difference where it speaks of what is counted.
_EXPLAINS = {"MACs": ("mac", "flop"), "parameters": ("param", "value", "statistic", "gamma")}
_LIMITS = CallLimits(seconds=600, memory_bytes=4_000_000_000)
_DAMAGED = (
    "the cache holds another file than its hash says; it is not used: `advisor catalog fetch` gets"
    " it anew"
)


class FindingLevel(StrEnum):
    """The severity of a finding: an error makes the check fail, a note does not."""

    ERROR = "error"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class CatalogueFinding:
    """One finding: its ``file:line``, its card (empty for a whole file), and a message."""

    level: FindingLevel
    place: str
    card: str
    text: str


@dataclass(frozen=True, slots=True)
class Verified:
    """The evidence that a check has."""

    counts: int  #: published parameters and MACs that cards were compared with
    strong: int  #: sources whose file or archive is known by SHA-256 or SHA-384
    weak: int  #: sources known by an MD5 or the first digits of a hash
    unknown: int  #: sources without a hash, which are never downloaded
    #: cards without any source, whose weights only a file of the user's own can be
    sourceless: tuple[str, ...]
    hashed: tuple[str, ...]  #: cards whose file in the cache was hashed and is the one on the card
    damaged: tuple[str, ...]  #: cards whose file in the cache is another one


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check."""

    cards: int  #: number of cards that were read
    findings: tuple[CatalogueFinding, ...]  #: errors first
    verified: Verified  #: what the check could use
    built: int = 0  #: how many graphs were built

    @property
    def errors(self) -> tuple[CatalogueFinding, ...]:
        """The findings that make the check fail."""
        return tuple(finding for finding in self.findings if finding.level is FindingLevel.ERROR)


@dataclass(frozen=True, slots=True)
class Counts:
    """The trained values of a graph, all its values, and its MACs.

    All values include BatchNorm's moving statistics, as some sources count.
    """

    params: int
    values: int
    macs: int


def check_catalogue(
    extra: Sequence[Path] = (), build: bool = False, built: Callable[[str], None] | None = None
) -> Checked:
    """Check every card of the shipped catalogue, the user's own and the ``extra`` files.

    ``build`` also builds every card's Keras graph, in child processes, and counts it, in seconds a
    card. No graph is built if a file cannot be read or has a mistake: the check would have to be
    made again. ``built`` is called with the name of each card whose graph was built.
    """
    if build:
        require_training("--build")
    mistakes: list[UsageError] = []
    files = list(_read_files(catalogue_paths(extra), mistakes))
    findings = list(map(_finding_of_error, (*mistakes, *find_repeated_names(files))))
    places: dict[str, str] = {}
    cards: dict[str, Card] = {}
    for file in files:
        for position, card in enumerate(file.cards):
            places[card.name] = file.place(position)
            cards[card.name] = card
    # Minutes of building are wasted on a catalogue with mistakes: it has to be checked again.
    counts = {}
    if build and not findings:
        counts = _count_all(tuple(cards.values()), built)
    for card in cards.values():
        for level, text in _check_card(card, counts.get(card.name)):
            findings.append(CatalogueFinding(level, places[card.name], card.name, text))
    verified = count_verified(tuple(cards.values()))
    for name in verified.damaged:
        findings.append(CatalogueFinding(FindingLevel.ERROR, places[name], name, _DAMAGED))
    errors_first = tuple(sorted(findings, key=lambda finding: finding.level is FindingLevel.NOTE))
    return Checked(len(cards), errors_first, verified, len(counts))


def count_graph(card: Card) -> Counts:
    """Build the card's graph and count it, in a child process; a user's own file is read."""
    if card.own_file:
        from advisor.catalog._weights.fetching import fetch_weights
        from advisor.tflite import count, read, split_postprocess

        path = fetch_weights(card, FetchOptions(offline=True)).path
        cost = count(read(split_postprocess(path.read_bytes(), str(path))[0]))
        return Counts(cost.parameters, cost.parameters, cost.macs)
    if card.architecture == GRAPH_FILE or card.whole:
        from advisor.catalog._graph_file import graph_of
        from advisor.tflite import count, read

        graph_file = graph_of(card)
        values = sum(map(prod, graph_file.shapes.values()))
        # Random weights are enough, because MACs follow from the shapes.
        data = graph_file.fill_constants(graph_file.draw_tensors())
        return Counts(graph_file.params, values, count(read(data)).macs)
    import keras

    from advisor.catalog import _architectures as architectures, _graph as graph
    from advisor.catalog._weights import mapping

    for source in card.weights:
        if source.port not in mapping.map_rules():
            raise UsageError(
                f"no rule is called '{source.port}'{nearest(source.port, mapping.map_rules())}",
                f"rules: {', '.join(mapping.map_rules())}",
            )
    model = architectures.build(card.architecture, card.input_size, card.classes, card.keywords)
    try:
        values = sum(prod(variable.shape) for variable in model.variables)
        return Counts(graph.count_parameters(model), values, graph.count_macs(model))
    finally:
        # A child counts many graphs, and Keras keeps every one until its session is cleared.
        keras.backend.clear_session()


def _read_files(paths: Sequence[Path], mistakes: list[UsageError]) -> Iterator[CardFile]:
    for path in paths:
        try:
            yield read_catalogue_file(path, mistakes)
        except UsageError as error:
            mistakes.append(error)


def _finding_of_error(error: UsageError) -> CatalogueFinding:
    place, _, text = error.message.partition(": ")
    return CatalogueFinding(FindingLevel.ERROR, place, "", text or error.message)


def _count_all(
    cards: Sequence[Card], built: Callable[[str], None] | None
) -> dict[str, Counts | AdvisorError]:
    """Return the counts of each card's graph, or the error of building it, by name."""
    with ChildPool(Path("/dev/null")) as pool, ThreadPoolExecutor(CHILDREN) as callers:

        def count_card(card: Card) -> Counts | AdvisorError:
            try:
                counts: Counts = pool.call(f"{__name__}:count_graph", card, limits=_LIMITS)
                return counts
            except AdvisorError as error:
                return error
            finally:
                if built is not None:
                    built(card.name)

        names = [card.name for card in cards]
        return dict(zip(names, callers.map(count_card, cards), strict=True))


def _check_card(
    card: Card, counts: Counts | AdvisorError | None
) -> Iterator[tuple[FindingLevel, str]]:
    """Yield what is wrong with a card, given the counts of its graph or the error of building."""
    for source in card.weights:
        yield from _check_source(source)
    exact = counts if isinstance(counts, Counts) else None
    for published in card.published:
        yield from _check_published(card, published, exact)
    if isinstance(counts, AdvisorError):
        kind = "crashed" if isinstance(counts, StageError) else "refused"
        yield FindingLevel.ERROR, f"its graph is not built ({kind}): {counts.message}"
    if exact is not None and exact.params != card.params:
        yield (
            FindingLevel.ERROR,
            f"its graph has {exact.params} parameters, the card says {card.params}",
        )
    if exact is not None and abs(exact.macs - card.macs) > MACS_TOLERANCE * card.macs:
        yield FindingLevel.ERROR, f"its graph has {exact.macs} MACs, the card says {card.macs}"


def _check_source(source: WeightSource) -> Iterator[tuple[FindingLevel, str]]:
    if not all(member.key for member in source.members):
        level = FindingLevel.NOTE if source.url else FindingLevel.ERROR
        yield level, "a source without a hash: never downloaded, only a copy of your own is taken"
    elif source.kind == "huggingface" and not source.file.checkable:
        yield (
            FindingLevel.NOTE,
            "a source without a hash: the hub's is checked, and kept on first use",
        )
    elif not all(member.strong or member.archive for member in source.members):
        text = (
            "a source known by an MD5 or the first digits of a hash: enough against damage, not"
            " forgery"
        )
        yield FindingLevel.NOTE, text
    if source.kind == "file":
        path = Path(source.file.path)
        if not path.is_file():
            yield FindingLevel.ERROR, f"its file {path} is not there"
        elif source.file.sha256:
            sha256 = sha256_file(path)
            if sha256 != source.file.sha256:
                yield (
                    FindingLevel.ERROR,
                    f"its file {path} has sha256 {sha256}, expected {source.file.sha256}",
                )


def _check_published(
    card: Card, published: Published, counts: Counts | None
) -> Iterator[tuple[FindingLevel, str]]:
    notes = f"{published.note} {card.note}".casefold()
    # Some sources count the moving statistics of BatchNorm, so either number may be theirs.
    params = (card.params, counts.values) if counts else (card.params,)
    compared = (
        ("parameters", published.params, params, 0.0),
        ("MACs", published.macs, (card.macs,), MACS_TOLERANCE),
    )
    for what, theirs, ours, tolerance in compared:
        if theirs is None:
            continue
        # Sources round: 4.2 million may be any number of the next digit.
        allowed = max(tolerance * theirs, find_rounding(theirs))
        if min(abs(count - theirs) for count in ours) <= allowed:
            continue
        if any(word in notes for word in _EXPLAINS[what]):
            yield (
                FindingLevel.NOTE,
                f"{what} that differ from the published ones, as a note on the card explains",
            )
            continue
        text = (
            f"{published.source} says {theirs} {what}, the card {ours[0]}"
            f" ({100 * (ours[0] / theirs - 1):+.1f} %)"
        )
        yield FindingLevel.ERROR, f"{text}, and no note explains it"


def count_verified(cards: Sequence[Card]) -> Verified:
    """Count what the cards state, and hash what the cache holds of their weights."""
    sources = 0
    strong = 0
    known = 0
    counts = 0
    hashed = set[str]()
    damaged = set[str]()
    cache = DownloadCache(FetchOptions().cache_root)
    for card in cards:
        for published in card.published:
            counts += (published.params is not None) + (published.macs is not None)
        for source in card.weights:
            sources += 1
            strong += all(member.strong or member.archive for member in source.members)
            known += all(member.key for member in source.members)
            if cache.holds(source):
                # `find` hashes the file, and does not return one that is damaged.
                is_right = cache.find(source) is not None
                (hashed if is_right else damaged).add(card.name)
    return Verified(
        counts=counts,
        strong=strong,
        weak=known - strong,
        unknown=sources - known,
        sourceless=tuple(card.name for card in cards if not card.weights),
        hashed=tuple(sorted(hashed)),
        damaged=tuple(sorted(damaged)),
    )


def find_rounding(value: int) -> int:
    """Return the unit to which ``value`` was rounded, from its trailing zeros."""
    unit = 1
    while value and value % (unit * 10) == 0:
        unit *= 10
    return unit
