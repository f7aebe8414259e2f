"""Make the graph files of the catalogue from the definitions of timm; see ``__main__``."""
