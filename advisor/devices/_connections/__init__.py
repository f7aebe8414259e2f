"""Connect to real devices: each connection runs a measurement there and returns its figures."""
