"""Serve a folder of runs as local web pages."""
