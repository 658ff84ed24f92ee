"""The ecosystem's import path for the global configuration of this process."""

from nemo_gym import names
from nemo_gym.config.current import CACHE_DIR_KEY_NAME as CACHE_DIR_KEY_NAME
from nemo_gym.config.current import CONFIG_PATHS_KEY_NAME as CONFIG_PATHS_KEY_NAME
from nemo_gym.config.current import DEFAULT_HOST_KEY_NAME as DEFAULT_HOST_KEY_NAME
from nemo_gym.config.current import DISALLOWED_PORTS_KEY_NAME as DISALLOWED_PORTS_KEY_NAME
from nemo_gym.config.current import DRY_RUN_KEY_NAME as DRY_RUN_KEY_NAME
from nemo_gym.config.current import ENTRYPOINT_KEY_NAME as ENTRYPOINT_KEY_NAME
from nemo_gym.config.current import HF_TOKEN_KEY_NAME as HF_TOKEN_KEY_NAME
from nemo_gym.config.current import OBSERVABILITY_ENABLED_KEY_NAME as OBSERVABILITY_ENABLED_KEY_NAME
from nemo_gym.config.current import POLICY_API_KEY_KEY_NAME as POLICY_API_KEY_KEY_NAME
from nemo_gym.config.current import POLICY_BASE_URL_KEY_NAME as POLICY_BASE_URL_KEY_NAME
from nemo_gym.config.current import POLICY_MODEL_KEY_NAME as POLICY_MODEL_KEY_NAME
from nemo_gym.config.current import POLICY_MODEL_NAME_KEY_NAME as POLICY_MODEL_NAME_KEY_NAME
from nemo_gym.config.current import PORT_RANGE_HIGH_KEY_NAME as PORT_RANGE_HIGH_KEY_NAME
from nemo_gym.config.current import PORT_RANGE_LOW_KEY_NAME as PORT_RANGE_LOW_KEY_NAME
from nemo_gym.config.current import RESULTS_DIR_KEY_NAME as RESULTS_DIR_KEY_NAME
from nemo_gym.config.current import TOKEN_ID_CAPTURE_BLOCK as TOKEN_ID_CAPTURE_BLOCK
from nemo_gym.config.current import GlobalConfigDictParser as GlobalConfigDictParser
from nemo_gym.config.current import GlobalConfigDictParserConfig as GlobalConfigDictParserConfig
from nemo_gym.config.current import __getattr__ as __getattr__
from nemo_gym.config.current import get_first_server_config_dict as get_first_server_config_dict
from nemo_gym.config.current import get_global_config_dict as get_global_config_dict
from nemo_gym.config.current import get_hf_token as get_hf_token
from nemo_gym.config.current import maybe_get_global_config_dict as maybe_get_global_config_dict
from nemo_gym.config.current import plain_dict as plain_dict
from nemo_gym.config.current import set_global_config_dict as set_global_config_dict
from nemo_gym.config.current import to_dict_config as to_dict_config
from nemo_gym.launch.sockets import find_open_port as find_open_port
from nemo_gym.rows import keys

AGENT_REF_KEY_NAME = keys.AGENT_REF_KEY
ATTEMPT_INDEX_KEY_NAME = keys.ATTEMPT_INDEX_KEY
HEAD_SERVER_KEY_NAME = names.HEAD_SERVER
RESPONSES_CREATE_PARAMS_KEY_NAME = keys.PARAMS_KEY
RESPONSE_KEY_NAME = keys.RESPONSE_KEY
REWARD_KEY_NAME = keys.REWARD_KEY
ROLLOUT_ID_KEY_NAME = keys.ROLLOUT_ID_KEY
ROLLOUT_INDEX_KEY_NAME = keys.ROLLOUT_INDEX_KEY
SKILLS_REF_KEY_NAME = keys.SKILLS_REF_KEY
TASK_INDEX_KEY_NAME = keys.TASK_INDEX_KEY
TASK_SOURCE_KEY_NAME = keys.TASK_SOURCE_KEY
