"""Turn a model file of the user into a card of the catalogue.

``import_model`` is the entry; ``README.md`` has the steps and their modules.
"""
