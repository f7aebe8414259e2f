"""The statistics behind ``_prediction.py``: the latency of a model on a target without it."""
