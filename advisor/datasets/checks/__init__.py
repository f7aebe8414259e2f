"""Check a data set before anything is learnt from it."""
