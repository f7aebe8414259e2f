"""Fetch and check weights (:mod:`fetching`), read them (:mod:`readers`),
map them to a graph (:mod:`mapping`).
"""
