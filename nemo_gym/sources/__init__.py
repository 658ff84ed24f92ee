"""Tasks that come from elsewhere, as rows of this gym: one package or module for each format."""
