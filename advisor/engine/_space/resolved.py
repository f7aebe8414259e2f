"""Hold a question with all its parts, and make the plan and the materials of a search from them.

``resolving.py`` makes it. ``run_search`` asks it for the plan when the weights are there, and for
the materials of the stages when the plan is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version

from advisor.catalog import (
    Card,
    Catalogue,
)
from advisor.compression import Recipe
from advisor.core import (
    TrainingName,
)
from advisor.engine._pipeline.images import (
    Images,
)
from advisor.engine._pipeline.materials import Materials, Workload
from advisor.engine._pipeline.stage import StageName
from advisor.engine._pipeline.stages.figures import effort_for
from advisor.engine._question import Execution, Question, Request
from advisor.engine._space.candidates import Candidates, names_networks
from advisor.engine._space.plan import Plan
from advisor.engine._targets.target_devices import TargetDevices
from advisor.measurement import Host, host
from advisor.store import ArtifactCache

RUNTIME = "ai-edge-litert"


@dataclass(frozen=True)
class Resolved:
    """A question with all its parts:
    the catalogue, and the candidates that it chose, the most promising first.
    """

    request: Request
    catalogue: Catalogue
    targets: TargetDevices
    recipes: Mapping[str, Recipe]
    cards: tuple[Card, ...]
    images: Images | None = None
    remarks: tuple[str, ...] = ()

    @property
    def question(self) -> Question:
        """The question."""
        return self.request.question

    @property
    def execution(self) -> Execution:
        """The settings of how the search runs."""
        return self.request.execution

    @property
    def runtime(self) -> str:
        """The runtime that measures, with its version."""
        return f"{RUNTIME}=={version(RUNTIME)}"

    @property
    def cards_to_try(self) -> int:
        """Number of cards that are tried: all if the user named networks; finished files
        always.
        """
        if names_networks(self.question, self.catalogue):
            return len(self.cards)
        finished_files = sum(bool(card.form) for card in self.cards)
        return finished_files + self.question.of_task.cards

    @property
    def trainings(self) -> tuple[str, ...]:
        """The training recipes, the lightest first: a large set gets a quick head on some of
        it.
        """
        trainings = self.question.trainings
        # On a large set, a quick head on some of the images shows
        # which cards are worth a head on all of them.
        if self.images is not None and self.images.large and self.question.of_task.labelled:
            return (TrainingName.HEAD_SUBSET, *trainings)
        return trainings

    def plan(self, candidates: Candidates, pace: Mapping[StageName, float] | None = None) -> Plan:
        """Return the search space of cards that have weights; ``pace``:
        CPU seconds of stages over the expected ones.
        """
        question = self.question
        images = self.images
        targets = self.targets
        local_targets = (device.local for device in targets.devices)
        workload = Workload(
            self.trainings,
            tuple(self.recipes),
            images.counts if images else {},
            question,
            own_holdout=images is not None and images.own_holdout,
            local_targets=tuple(filter(None, local_targets)),
            classes=len(images.classes) if images else 2,
        )
        return Plan(
            candidates.cards,
            workload,
            self.runtime,
            pace or {},
            lead=targets.lead.identity if targets.lead else None,
            cores=self.execution.cores,
        )

    def materials(
        self, candidates: Candidates, plan: Plan, machine: Host | None = None
    ) -> Materials:
        """Return the materials of the stages, which ``machine`` measures; None for this one.

        Files of a large plan are timed briefly.
        """
        return Materials(
            ArtifactCache(),
            self.images,
            candidates.weights,
            machine or host.describe(),
            self.question,
            effort_for(plan.size),
        )
