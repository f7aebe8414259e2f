"""Measure a few networks and kernels on a device, keep them in its profile, and judge them."""
