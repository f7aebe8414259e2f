"""Reads the tables of published measurements and turns them into device profiles."""
