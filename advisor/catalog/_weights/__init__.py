"""Fetch and check weights (:mod:`fetching`), read them (:mod:`readers`), map them to layers.

The latter is :mod:`mapping`. ``README.md`` has the order in which to read them.
"""
