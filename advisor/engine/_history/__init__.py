"""Read, compare, resume and re-evaluate earlier runs."""
