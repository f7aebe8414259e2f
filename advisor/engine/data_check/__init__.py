"""Find what is wrong with a set of images, by its files and by the features of a network."""

from advisor.engine.data_check.check import DataCheck, check_data
from advisor.engine.data_check.label_checker import LabelChecker

__all__ = ["DataCheck", "LabelChecker", "check_data"]
