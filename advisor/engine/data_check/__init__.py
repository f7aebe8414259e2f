"""What is wrong with a set of pictures: what its files show, and what a network thinks of their labels."""

from advisor.engine.data_check.checked import Checked, check_data

__all__ = ["Checked", "check_data"]
