"""Pure values and decisions: no input or output, no machine-learning library."""
