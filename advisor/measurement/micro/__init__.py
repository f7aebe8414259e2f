"""Microcontrollers: the real interpreter of TensorFlow Lite Micro, and Arm's compiler for Ethos-U."""
