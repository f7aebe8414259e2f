"""The project's own benchmarks: ``make bench`` runs them and keeps their tables under ``benchmarks/results/``."""
