"""Decide what to evaluate next and when to stop: the rule, the Optuna study and its sampler."""
