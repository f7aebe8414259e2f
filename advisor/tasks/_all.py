"""List the tasks of this package; ``core/_task_registry.py`` reads the list by name."""

from advisor.tasks._counting import COUNTING
from advisor.tasks.anomaly import ANOMALY
from advisor.tasks.classification import CLASSIFICATION
from advisor.tasks.detection import DETECTION
from advisor.tasks.segmentation import SEGMENTATION
from advisor.tasks.tagging import TAGGING

TASKS = (CLASSIFICATION, DETECTION, COUNTING, SEGMENTATION, ANOMALY, TAGGING)
"""Every task of this package; the first one is the default."""
