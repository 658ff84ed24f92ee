"""Older import paths. These modules re-export and hold no logic; new code imports from the rooms themselves."""
