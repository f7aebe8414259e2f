"""From a question to a decision: what is worth trying, in which order, and what came of it."""
