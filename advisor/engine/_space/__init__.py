"""Plan the search space: cards, trainings, compressions and targets,
with their expected figures and costs.
"""
