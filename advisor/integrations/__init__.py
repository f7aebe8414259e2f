"""Connect advisor with other programs and devices. Each folder registers itself by
an entry point.
"""
