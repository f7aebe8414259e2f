"""Read images that have one class each."""

from __future__ import annotations

from dataclasses import replace

from advisor.core.errors import UsageError
from advisor.core.tasks import TASKS
from advisor.datasets.checks.check import require_usable
from advisor.datasets.division import divide
from advisor.datasets.others import read_others
from advisor.datasets.survey import survey
from advisor.engine.pipeline.images import Images
from advisor.engine.question import Question
from advisor.engine.space.images import Say, divided


def read(question: Question, say: Say) -> Images:
    """Return images that have classes, and images of other things."""
    path = question.require_data()
    try:
        read = survey(path)
        require_usable(read.dataset)
    except UsageError as error:
        others = ((task.name, task.recognized(path)) for task in TASKS.values())
        for name, content in ((name, content) for name, content in others if content):
            raise UsageError(error.message, f"the folder has {content}: add --task {name}") from None
        raise
    division = divide(read, question.seed)
    images = divided(read.dataset, division, division.notes(read.dataset), say)
    if question.unknown is None:
        return images
    outside, note = read_others(question.unknown, read)
    say(note)
    return replace(images, others=outside, notes=(*images.notes, note))
