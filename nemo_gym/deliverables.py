"""The ecosystem's import path for the files that an agent delivers."""

from nemo_gym.ecosystem.deliverables import IGNORE_FILES as IGNORE_FILES
from nemo_gym.ecosystem.deliverables import is_deliverable as is_deliverable
