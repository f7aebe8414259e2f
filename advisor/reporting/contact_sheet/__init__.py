"""What a check of a data set found: on the terminal, and as a page with the suspects' pictures."""
