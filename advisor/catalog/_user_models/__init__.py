"""Turn a model file of the user into a card of the catalogue."""
