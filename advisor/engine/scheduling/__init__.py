"""Decide what to evaluate next and when to stop: the Optuna study, the sampler, promotion and stopping rules."""
