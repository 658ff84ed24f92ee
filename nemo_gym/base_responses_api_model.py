"""The ecosystem's import path for model servers."""

from fastapi import Body as Body

from nemo_gym.ecosystem.model_calls import ModelCallRecord as ModelCallRecord
from nemo_gym.ecosystem.model_calls import aggregate_model_call_metrics as aggregate_model_call_metrics
from nemo_gym.ecosystem.model_calls import aggregate_model_call_records as aggregate_model_call_records
from nemo_gym.ecosystem.model_calls import build_model_call_record as build_model_call_record
from nemo_gym.ecosystem.model_calls import extract_token_stats as extract_token_stats
from nemo_gym.ecosystem.model_calls import (
    read_available_model_call_records as read_available_model_call_records,
)
from nemo_gym.ecosystem.model_calls import read_model_call_records as read_model_call_records
from nemo_gym.engines.gateway.calls import install_model_call_capture as install_model_call_capture
from nemo_gym.engines.model import BaseResponsesAPIModel as BaseResponsesAPIModel
from nemo_gym.engines.model import BaseResponsesAPIModelConfig as BaseResponsesAPIModelConfig
from nemo_gym.engines.model import SimpleResponsesAPIModel as SimpleResponsesAPIModel
from nemo_gym.engines.record.call import start_model_execution as start_model_execution
from nemo_gym.engines.record.store import CaptureStore as CaptureStore
from nemo_gym.engines.record.store import ModelCallCaptureConfig as ModelCallCaptureConfig
from nemo_gym.engines.record.store import make_capture_store as make_capture_store
from nemo_gym.engines.record.store import (
    observability_enabled_from_config as observability_enabled_from_config,
)
from nemo_gym.serving import routes

_orjson_dispatch_response = routes.build_json_response
