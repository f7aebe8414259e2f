"""Diagnose why a quantized file is less accurate or slower than its float file.

Begin at ``diagnose``; ``pairs``, ``kernels``, ``equalization`` and ``running`` serve it, and
``figures`` and ``explanations`` make what it returns.
"""
