"""``advisor compress``: a search among the forms of one file of the user's own."""
