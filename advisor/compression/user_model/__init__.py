"""``advisor compress``: the forms of a file of the user's own, and what each costs."""
