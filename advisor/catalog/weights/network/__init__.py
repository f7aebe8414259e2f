"""HTTP for weights: downloads, proxies and credentials as pip and npm are configured."""
