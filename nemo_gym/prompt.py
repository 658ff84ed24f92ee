"""The ecosystem's import path for prompt templates."""

from nemo_gym.inputs.prompts import PromptConfig as PromptConfig
from nemo_gym.inputs.prompts import apply_prompt_to_row as apply_prompt_to_row
from nemo_gym.inputs.prompts import fill_prompt as fill_prompt
from nemo_gym.inputs.prompts import load_prompt_config as load_prompt_config
from nemo_gym.inputs.prompts import validate_prompt_compatibility as validate_prompt_compatibility
