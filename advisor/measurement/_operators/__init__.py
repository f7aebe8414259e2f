"""Profile one file: the time of each operator, the roofline and the advice that follows."""
