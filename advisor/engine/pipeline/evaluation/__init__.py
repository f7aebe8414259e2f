"""Put the results of a variant's stages together into its evaluation."""
