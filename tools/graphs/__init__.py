"""Make the graph files of the catalogue:
from timm's networks (``__main__``), and from Keras' (``from_keras``).
"""
