"""Microcontrollers: their interpreter on this machine, Arm's compiler for Ethos-U, the sources for firmware."""

EXTRA = "micro"
"""The extra with the interpreter and the compiler."""
