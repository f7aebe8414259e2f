"""Read images with any number of labels each, and divide them so that parts share the labels.

Image tagging uses :class:`.survey.LabelSetSurvey`. ``tables.py`` (with ``cells.py``),
``folders.py`` and ``inside.py`` list the images, ``survey.py`` reads them, and
``stratification.py`` divides them.
"""
