"""Decide what a search evaluates next and when it ends.

Read in this order: ``search_loop.py`` (the loop of one search, which ``run_search`` calls),
``scheduler.py`` (hands out configurations), then the rule, which is the default: ``next_steps.py``
(the choice), ``expected_gain.py`` (what each candidate may gain), ``belief.py`` (accuracies that
are not measured yet), ``form_costs.py`` (latency and size), ``prices.py`` (CPU seconds). With
another sampler, ``study.py`` asks Optuna: ``suggesting.py``, ``sampler/`` and ``storage.py``.
``early_score.py`` and ``finalists.py`` run files on the hold-out; ``stop.py`` is the end.
"""
