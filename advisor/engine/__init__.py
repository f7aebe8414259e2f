"""Choose the most accurate model that meets a budget: from a question to a run folder with its evaluations."""
