"""What earlier runs tell a new one (``--learn-from``): which candidates did well, and what to expect of the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.core.errors import UsageError, nearest
from advisor.core.evaluation import Configuration, Evaluation, Status
from advisor.core.figures import accuracy_of, latency_of, size_of
from advisor.core.quantity import Provenance
from advisor.engine.likeness import DataFacts, likeness
from advisor.engine.pipeline.context import Images
from advisor.engine.question import Request
from advisor.store import RunFolder

if TYPE_CHECKING:
    import numpy as np

    from advisor.engine.scheduling.sampler import Candidate

ALIKE = 0.5
"""From this likeness on, the earlier front is evaluated first."""

FIRST_AT_MOST = 8
"""How many of the earlier front go first: its coarse shape; the sampler knows better what comes next."""

FEWEST = 3
"""Results below which nothing is concluded about other candidates."""

LEAST_OWN = 0.1
"""Weight that the published figures keep, however alike the pictures are."""

Way = tuple[str, str, str]
"""Card, training and compression recipe: what an accuracy belongs to."""


@dataclass(frozen=True)
class Earlier:
    """One earlier run.

    Attributes:
        folder: of the run.
        likeness: of its pictures to those of the question, 0 to 1.
        evaluations: what it evaluated, with accuracies on its own pictures.
    """

    folder: Path
    likeness: float
    evaluations: tuple[Evaluation, ...]

    @property
    def accuracies(self) -> dict[Way, float]:
        """Accuracy in % of what it evaluated."""
        return {_way(evaluation.configuration): accuracy_of(evaluation) for evaluation in self.evaluations}

    def front(self) -> list[Configuration]:
        """Return its front over accuracy, latency and size, what says most about its shape first."""
        import numpy as np

        from advisor.engine.scheduling.sampler.hypervolume import pareto_mask
        from advisor.engine.scheduling.sampler.ordering import prior_order

        rows = [e for e in self.evaluations if e.latency is not None and e.size is not None]
        losses = [(-accuracy_of(e), np.log(latency_of(e)), np.log(size_of(e))) for e in rows]
        points = np.array(losses, dtype=float).reshape(len(rows), 3)
        on_front = int(pareto_mask(points).sum())
        return [rows[place].configuration for place, _ in zip(prior_order(points), range(on_front), strict=False)]


@dataclass(frozen=True)
class Experience:
    """What is known from earlier runs, the most alike first."""

    runs: tuple[Earlier, ...] = ()

    @property
    def folders(self) -> tuple[str, ...]:
        """The runs' folders."""
        return tuple(str(run.folder) for run in self.runs)

    def first(self, open_to: Sequence[Configuration]) -> list[Configuration]:
        """Return what to evaluate first of what the search is open to: the front of the most alike run."""
        best = next((run for run in self.runs if run.likeness >= ALIKE), None)
        if best is None:
            return []
        same = {(_way(each), each.target.threads): each for each in open_to}
        wanted = ((_way(each), each.target.threads) for each in best.front())
        return [same[key] for key in wanted if key in same][:FIRST_AT_MOST]

    def taught(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return the candidates with priors by earlier results, as far as the pictures are alike.

        Of each run a surrogate of its accuracies says what to expect of every candidate; it starts from the published
        figures. The expectations are weighted by likeness and by how sure each is, the published figures by the rest.
        How far such a prior can be trusted here, the sampler learns from its own results as it does of any.
        """
        import numpy as np

        opinions = [opinion for run in self.runs if (opinion := _opinion(run, candidates)) is not None]
        if not opinions:
            return list(candidates)
        likest = max(run.likeness for run, _, _ in opinions)
        own = _standard(np.array([candidate.prior for candidate in candidates]))
        total, weight = own * max(1.0 - likest, LEAST_OWN), np.full(len(own), max(1.0 - likest, LEAST_OWN))
        for run, means, deviations in opinions:
            trust = run.likeness / (1.0 + (deviations / max(float(means.std()), 1e-9)) ** 2)
            total, weight = total + trust * _standard(means), weight + trust
        _, means, _ = max(opinions, key=lambda opinion: opinion[0].likeness)
        priors = total / weight * float(means.std()) + float(means.mean())
        return [replace(each, prior=float(prior)) for each, prior in zip(candidates, priors, strict=True)]

    def to_json(self) -> list[dict[str, Any]]:
        """Return a JSON array for the manifest."""
        rows = [(run.folder.name, round(run.likeness, 3), len(run.evaluations)) for run in self.runs]
        return [{"run": name, "likeness": alike, "evaluations": count} for name, alike, count in rows]


def read_experience(request: Request, images: Images | None) -> Experience:
    """Read the runs that ``--learn-from`` names.

    Raises:
        UsageError: a folder that is no run and holds none, one of a newer schema or of another task, or nothing in it
            that could teach: no evaluation on pictures.
    """
    if not request.learn_from or images is None:
        return Experience()
    hashes = frozenset(image.sha256 for image in images.dataset.images)
    own = DataFacts(images.dataset.fingerprint, frozenset(images.classes), hashes)
    found: dict[Path, Earlier] = {}
    for given in request.learn_from:
        runs = [(path, _earlier(path, request.task, own)) for path in _run_folders(Path(given))]
        teaching = {path: run for path, run in runs if run.evaluations}
        if not teaching:
            raise UsageError(
                f"--learn-from: '{given}' has no evaluation on pictures to learn from",
                "name a run that was made with --data and came to a result",
            )
        found |= teaching
    return Experience(tuple(sorted(found.values(), key=lambda run: (-run.likeness, run.folder))))


def _run_folders(given: Path) -> list[Path]:
    """Return the run, or the runs in a folder of runs."""
    if not given.is_dir():
        others = [path.name for path in given.parent.iterdir()] if given.parent.is_dir() else []
        raise UsageError(
            f"--learn-from: there is no folder '{given}'{nearest(given.name, others)}",
            "name a run folder such as runs/latest, or a folder of runs",
        )
    if (given / "request.yaml").is_file():
        return [given.resolve()]
    within = sorted({path.parent.resolve() for path in given.glob("*/request.yaml")})
    if not within:
        raise UsageError(
            f"--learn-from: '{given}' is not a run folder (no request.yaml) and holds none",
            "name a run folder such as runs/latest, or a folder of runs",
        )
    return within


def _earlier(path: Path, task: str, own: DataFacts) -> Earlier:
    try:
        run = RunFolder.open(path)
        other = str(run.read_request().get("task", task))
    except UsageError as error:
        raise UsageError(f"--learn-from: {error.message}", error.hint) from None
    if other != task:
        raise UsageError(f"--learn-from: '{path}' is a run of the task '{other}', not of '{task}'", "leave it out")
    return Earlier(path, likeness(own, _data_of(run)), tuple(_teaching(run)))


def _data_of(run: RunFolder) -> DataFacts:
    dataset, split = run.read_json("dataset.json"), run.read_json("split.json")
    hashes = {
        str(row["sha256"])
        for part in ("train", "validation", "holdout")
        for row in split.get(part) or ()
        if isinstance(row, dict) and "sha256" in row
    }
    classes = dataset.get("pictures_per_class")
    names = frozenset(map(str, classes)) if isinstance(classes, dict) else frozenset[str]()
    return DataFacts(str(dataset.get("fingerprint") or ""), names, frozenset(hashes))


def _teaching(run: RunFolder) -> Iterator[Evaluation]:
    """Accuracies that were measured on pictures: published ones are known already."""
    for evaluation in run.evaluations():
        accuracy = evaluation.accuracy
        if evaluation.status is Status.OK and accuracy is not None and accuracy.provenance is Provenance.MEASURED:
            yield evaluation


def _opinion(
    run: Earlier, candidates: Sequence[Candidate]
) -> tuple[Earlier, np.ndarray[Any, Any], np.ndarray[Any, Any]] | None:
    """Return a run with the accuracy (n,) that it lets expect of every candidate and its deviation, None if too few."""
    import numpy as np

    from advisor.engine.scheduling.sampler.design import make_design
    from advisor.engine.scheduling.sampler.surrogate import Surrogate

    known = run.accuracies
    ways = [tuple(str(each.params[name]) for name in ("card", "training", "compression")) for each in candidates]
    seen = {way: row for row, way in enumerate(ways) if way in known}  # threads change no accuracy: one row a way
    if len(seen) < FEWEST:
        return None
    costs = np.log([[each.known["latency"], each.known["size"]] for each in candidates])
    priors = np.array([candidate.prior for candidate in candidates])
    surrogate = Surrogate(make_design(priors, costs, [candidate.features for candidate in candidates]))
    for way, row in seen.items():
        surrogate.add(row, known[way])
    return run, surrogate.means(), surrogate.deviations(np.arange(len(candidates)))


def _standard(values: np.ndarray[Any, Any]) -> Any:
    return (values - values.mean()) / max(float(values.std()), 1e-9)


def _way(configuration: Configuration) -> Way:
    return configuration.card, configuration.training, configuration.compression
