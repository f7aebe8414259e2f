"""Read images with a class for each pixel, and divide them.

Segmentation uses :meth:`.survey.MaskSurvey.read_images`. ``listing.py`` finds image and mask of
each pair, ``mask.py`` reads the pixels, and ``survey.py`` names the classes, counts their pixels
and divides.
"""
