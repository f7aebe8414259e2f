"""Make the graph files of the catalogue, from timm's networks and from Keras'.

A graph file is a network without its weights, and how each constant follows from a checkpoint; so
a search converts a card without TensorFlow. ``from_timm`` and ``from_detectors`` run elsewhere,
with PyTorch; ``__main__`` makes the files of what they wrote, and ``from_keras`` those of Keras.
"""
