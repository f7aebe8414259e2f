"""Declare each stage of the graph, and the jobs that child processes run.

A function of a module makes one kind of stage: it says what is in the key, what the job gets, and
what is read from the result. Modules whose names end in ``jobs`` have the functions of the jobs.
"""
