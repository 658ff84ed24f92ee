"""The stock of a warehouse, and orders from it."""
