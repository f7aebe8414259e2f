"""Find what is wrong with a set of images, by its files and by the features of a network."""

from advisor.engine.data_check.label_checker import LabelChecker, check_data
from advisor.engine.data_check.result import DataCheck

__all__ = ["DataCheck", "LabelChecker", "check_data"]
