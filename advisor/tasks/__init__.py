"""The tasks of a search: one folder each, with one object."""

from advisor.tasks.classification import CLASSIFICATION
from advisor.tasks.counting import COUNTING
from advisor.tasks.detection import DETECTION

TASKS = (CLASSIFICATION, DETECTION, COUNTING)  # Every task of this package; the first one is the default
