"""Tests of the flatbuffer as a value."""
