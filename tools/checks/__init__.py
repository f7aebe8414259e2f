"""Checks of the checkout that ``make lint`` runs beside the linters.

Each module has a function ``problems`` that yields a line for each thing that is wrong;
``__main__`` runs them all. The two contracts are called by import-linter instead.
"""
