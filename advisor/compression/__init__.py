"""Compression recipes: each turns one float ``.tflite`` into a smaller or faster one."""
