"""The ecosystem's import path for skills of agents as of its release after 0.7."""

from nemo_gym.inputs.skills import SkillMetadata as SkillMetadata
from nemo_gym.inputs.skills import SkillsRef as SkillsRef
from nemo_gym.inputs.skills import hash_skill_dir as hash_skill_dir
from nemo_gym.inputs.skills import load_skill_directory as load_skill_directory
from nemo_gym.inputs.skills import parse_skill_md as parse_skill_md
from nemo_gym.inputs.skills import stage_skills as stage_skills
