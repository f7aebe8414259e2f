"""Diagnose why a quantized file is less accurate or slower than its float file."""
