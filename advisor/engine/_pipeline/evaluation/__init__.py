"""Combine the results of a variant's stages into its evaluation."""
