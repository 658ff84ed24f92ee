"""The ecosystem's import path for values of a specification that follow from others."""

from nemo_gym.sandbox.spec_values import CPU_CAP_ENV_VARS as CPU_CAP_ENV_VARS
from nemo_gym.sandbox.spec_values import cpu_cap_env as cpu_cap_env
from nemo_gym.sandbox.spec_values import rewrite_image as rewrite_image
