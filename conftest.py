"""What the tests of all rooms share."""

from hypothesis import settings

settings.register_profile("gym", deadline=None)  # no test asserts a time
settings.load_profile("gym")
