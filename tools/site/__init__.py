"""Pages of the site that are made from the code, and links between pages.

``mkdocs.yml`` names ``hooks.py``, which calls the other modules while the site is built.
"""
