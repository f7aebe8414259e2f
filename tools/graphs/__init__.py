"""Make the graph files of the catalogue from definitions of timm, see ``__main__``, and of Keras, see ``from_keras``."""
