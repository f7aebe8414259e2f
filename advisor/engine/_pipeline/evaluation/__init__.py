"""Combine the results of a variant's stages into its evaluation.

``evaluator.py`` makes the evaluation of a configuration, and ``scorer.py`` adds what the hold-out
says of a finalist.
"""
