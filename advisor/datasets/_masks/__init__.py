"""Read images with a class for each pixel, and divide them.

Segmentation uses :func:`.survey.survey_masks`. ``listing.py`` finds image and mask of each pair,
``mask.py`` reads the pixels, and ``survey.py`` names the classes, counts their pixels and divides.
"""
