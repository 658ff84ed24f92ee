"""Sandboxes from descriptions in other formats."""
