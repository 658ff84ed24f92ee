"""Amounts of money and the entries of accounts."""
