"""The bundle to ship: the model, its card, code for apps, and test vectors.

Read ``bundle.py`` first, then ``shipping.py`` (what a task or an integration adds). The README
of this folder lists the other modules. ``check.py`` is a program: it is copied into every bundle.
"""
