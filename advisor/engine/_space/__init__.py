"""Plan the search space: find the parts of a question once, and make cards x trainings x
compressions x targets of them, with their expected figures and costs.

Read ``resolving.py`` first (what a question needs), then ``plan.py`` (the search space).
"""
