"""Words, lines and tables of plain text."""
