"""Quantize a float ``.tflite``: the methods that recipes share.

In the order of the work: ``layers`` and ``observe`` (activations on images),
``grid`` and ``correction`` (weights on steps), ``prepared`` (both once for all
forms), ``quantizer`` (integers).
"""
