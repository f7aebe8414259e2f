"""Turn a model card into artefacts and their figures: stages, their graph, and the walker that
runs it.

Read ``graph.py`` first (which stages a variant has), then ``stage.py`` and ``walker.py``.
``stages/`` declares each stage, and ``evaluation/`` makes an evaluation of their results. This
room is inside the engine: what other rooms may use of it is in the face of :mod:`advisor.engine`.
"""
