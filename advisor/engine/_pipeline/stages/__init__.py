"""Build each stage of the graph and its job for a child process."""
