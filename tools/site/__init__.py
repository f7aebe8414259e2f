"""Pages of the site that are made from the code, and links between pages;
``mkdocs.yml`` names the hooks.
"""
