"""Read earlier runs: load, resume, compare and re-evaluate them."""
