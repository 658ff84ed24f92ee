"""Spans of time, and plans made of them."""
