"""Build each stage of the graph, and the jobs that they run in child processes."""
