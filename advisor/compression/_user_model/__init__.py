"""``advisor compress``: apply recipes to a user's file, and measure what each one costs."""
