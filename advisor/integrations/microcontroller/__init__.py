"""Microcontrollers: the sources for their firmware."""
