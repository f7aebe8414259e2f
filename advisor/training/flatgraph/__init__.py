"""A float ``.tflite`` as a graph that can be trained: no Keras model, no card, batch normalisation folded already."""
