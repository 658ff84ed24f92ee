"""Every name that the contract's first section lists can be imported from where environments import it."""

from __future__ import annotations

from importlib import import_module

import pytest

NAMES = {
    "nemo_gym.server_utils": """
        ServerClient raise_for_status get_response_json SESSION_ID_KEY request get_first_server_config_dict
        is_nemo_gym_fastapi_entrypoint get_server_url apply_rollout_prefix rollout_path_prefix
        HEAD_SERVER_KEY_NAME BaseServerConfig get_global_aiohttp_client
        """,
    "nemo_gym.base_resources_server": """
        SimpleResourcesServer BaseResourcesServerConfig BaseRunRequest BaseVerifyRequest BaseVerifyResponse
        BaseMultiRewardVerifyResponse BaseSeedSessionRequest BaseSeedSessionResponse AggregateMetricsRequest
        AggregateMetrics ReverifyMode NeMoGymResponse
        """,
    "nemo_gym.base_responses_api_agent": "SimpleResponsesAPIAgent BaseResponsesAPIAgentConfig Body",
    "nemo_gym.base_responses_api_model": "SimpleResponsesAPIModel BaseResponsesAPIModelConfig Body",
    "nemo_gym.openai_utils": """
        NeMoGymResponse NeMoGymResponseCreateParamsNonStreaming NeMoGymResponseOutputMessage
        NeMoGymEasyInputMessage NeMoGymResponseOutputText NeMoGymResponseFunctionToolCall
        NeMoGymFunctionCallOutput NeMoGymResponseReasoningItem NeMoGymSummary
        NeMoGymChatCompletionCreateParamsNonStreaming NeMoGymResponseUsage NeMoGymChatCompletion
        NeMoGymResponseOutputTokensDetails NeMoGymResponseInputTokensDetails NeMoGymResponseOutputItem
        accumulate_response_usage NeMoGymAsyncOpenAI NeMoGymResponseOutputRefusal
        NeMoGymResponseOutputMessageForTraining NeMoGymResponseFunctionToolCallForTraining
        NeMoGymResponseReasoningItemForTraining NeMoGymEasyInputMessageForTraining
        NeMoGymChatCompletionMessageForTraining NeMoGymChoice NeMoGymChatCompletionMessage NeMoGymMessage
        NeMoGymResponseInput NeMoGymResponseInputItem NeMoGymResponseInputText NeMoGymFunction
        NeMoGymFunctionToolParam NeMoGymChatCompletionSystemMessageParam NeMoGymChatCompletionUserMessageParam
        NeMoGymChatCompletionAssistantMessageParam NeMoGymChatCompletionToolMessageParam
        NeMoGymChatCompletionMessageToolCallParam RETRY_ERROR_CODES RATE_LIMIT_ERROR_CODES
        """,
    "nemo_gym.config_types": """
        ModelServerRef ResourcesServerRef AgentServerRef BaseServerConfig AggregateMetricsRequest AggregateMetrics
        """,
    "nemo_gym.global_config": """
        get_global_config_dict get_first_server_config_dict TASK_INDEX_KEY_NAME ROLLOUT_INDEX_KEY_NAME
        ATTEMPT_INDEX_KEY_NAME AGENT_REF_KEY_NAME SKILLS_REF_KEY_NAME HF_TOKEN_KEY_NAME get_hf_token
        GlobalConfigDictParser GlobalConfigDictParserConfig maybe_get_global_config_dict find_open_port
        """,
    "nemo_gym.reward_profile": """
        compute_pass_majority_metrics highest_k_metrics compute_subset_metrics add_avg_sample_std_dev
        compute_aggregate_metrics AggregateMetricsMixin
        """,
    "nemo_gym.judge": "call_judge JudgeError reraise_judge_errors judge_failsafe",
    "nemo_gym.prompt": "load_prompt_config PromptConfig fill_prompt apply_prompt_to_row",
    "nemo_gym.rollout_collection": """
        RolloutCollectionHelper RolloutCollectionConfig NG_FAILURE_CLASS_KEY NG_NO_PERSIST_KEY NG_TERMINAL_KEY
        """,
    "nemo_gym.responses_converter": "ResponsesConverter VLLMConverter split_responses_input_output_items",
    "nemo_gym.sandbox": """
        SandboxSpec AsyncSandbox SandboxResources resolve_provider_config resolve_provider_metadata SandboxStatus
        SandboxExecResult SandboxHandle SandboxCreateError Sandbox register_provider list_providers
        """,
    "nemo_gym.cli": "RunHelper GlobalConfigDictParserConfig",
    "nemo_gym.agents.base_responses_api_agent": "SimpleResponsesAPIAgent BaseResponsesAPIAgentConfig",
    "nemo_gym.agents.skills": "SkillsRef load_skill_directory stage_skills",
    "nemo_gym.client.http_client": "get_global_aiohttp_client get_response_json raise_for_status request",
    "nemo_gym.client.server_client": "HEAD_SERVER_KEY_NAME ServerClient",
    "nemo_gym.rollouts.rollout_collection": "RolloutCollectionHelper RolloutCollectionConfig NG_TERMINAL_KEY",
    "nemo_gym.rollouts.rollout_health": "HealthCheckResult run_health_checks",
    "nemo_gym.verification.judge": "call_judge JudgeError reraise_judge_errors judge_failsafe",
    "nemo_gym.verification.verifier_fixture": "VerifierFixture exercise_verifier_fixture",
    "nemo_gym": "PARENT_DIR RESULTS_DIR CACHE_DIR",
}
"""Names of the ecosystem at 0.5.1."""

NAMES_OF_0_7 = {
    "nemo_gym.base_environment_server": """
        BaseEnvironmentServer BaseEnvironmentServerConfig CleanupContext CleanupHandle HandledEpisodeError
        """,
    "nemo_gym.base_resources_server": """
        ResourcesSeedSessionRequest ResourcesSeedSessionResponse ResourcesCloseSessionRequest
        ResourcesCloseSessionResponse ResourcesVerifyRequest NEMO_GYM_MCP_METADATA_KEY
        NEMO_GYM_MCP_SESSION_TOKEN_HEADER
        """,
    "nemo_gym.base_responses_api_agent": """
        AgentSeedSessionRequest AgentSeedSessionResponse AgentCloseSessionRequest AgentCloseSessionResponse
        AgentSessionState AgentSessionSetupError
        """,
    "nemo_gym.base_responses_api_model": """
        CaptureStore ModelCallCaptureConfig ModelCallRecord aggregate_model_call_metrics install_model_call_capture
        observability_enabled_from_config read_model_call_records start_model_execution _orjson_dispatch_response
        """,
    "nemo_gym.config_types": "TOKEN_CAPTURE_PATH_SEGMENT ROLLOUT_PATH_PREFIX",
    "nemo_gym.deliverables": "IGNORE_FILES is_deliverable",
    "nemo_gym.episode_types": """
        EpisodeId TaskId BaseEpisodeRequest BaseEpisodeResponse EpisodeFailure MaterializedTask
        """,
    "nemo_gym.failure_kinds": """
        FailureStage JUDGE_FAILED VERIFIER_ERROR validate_failure_kind is_registered is_namespaced
        """,
    "nemo_gym.global_config": """
        TOKEN_ID_CAPTURE_BLOCK OBSERVABILITY_ENABLED_KEY_NAME CACHE_DIR_KEY_NAME TASK_SOURCE_KEY_NAME
        RESULTS_DIR_KEY_NAME ROLLOUT_ID_KEY_NAME
        """,
    "nemo_gym.mcp_auto_exposure": "maybe_auto_expose MCPTool TOKEN_HEADER NEMO_GYM_MCP_SESSION_TOKEN_HEADER",
    "nemo_gym.openai_utils": """
        NeMoGymResponseFunctionCallOutput TOKEN_METADATA_FIELDS REQUIRED_TOKEN_METADATA_FIELDS MAX_NUM_TRIES
        """,
    "nemo_gym.path_utils": "failures_path_for materialized_path_for aggregate_metrics_path_for",
    "nemo_gym.responses_converter": "_usage_detail",
    "nemo_gym.responses_streaming": "sanitize_streaming_responses_body",
    "nemo_gym.rollout_collection": """
        DispatchLatencyTracker get_max_rollout_attempts is_terminal_failure migrate_invalid_judge_main_rows
        observed_elapsed SharedRolloutCollectionConfig _get_max_rollout_attempts
        """,
    "nemo_gym.rollout_correlation": """
        RolloutContextMiddleware current_rollout_id maybe_rollout_id_from_run_body rollout_context
        """,
    "nemo_gym.rollout_health": "run_health_checks HealthCheckResult",
    "nemo_gym.rollout_observability": """
        AgentEpisode AgentInvocation AgentObservationBundle ContextCompactionObservation ModelCallRef ObservationGap
        SandboxObservation ToolCallObservation TrajectoryRecord TrajectoryToolCall TrajectoryTurn
        """,
    "nemo_gym.sandbox": """
        AsyncSandboxCompose ConnectableProvider ExecResult SandboxCreateVerificationError SandboxEndpoint
        SandboxProvider SandboxPty SandboxPtyError SandboxPtySession SandboxPtySpec SupportsSandboxEndpoint
        SupportsSandboxNetwork SupportsSandboxPauseResume SupportsSandboxPortForwarding SupportsSandboxPty
        SupportsSandboxPtyAttach SupportsSandboxRuntimeRequirements SupportsSandboxSharedStorage create_provider
        get_provider_class rewrite_image
        """,
    "nemo_gym.sandbox.access": "DirectSandboxConnection SandboxAccess",
    "nemo_gym.sandbox.adapters.docker_compose": "AsyncSandboxCompose",
    "nemo_gym.sandbox.agent_tools": """
        restricted_network_policy sandbox_server_url seed_mcp_servers verify_agent_response get_server_url
        """,
    "nemo_gym.sandbox.api": "AsyncSandbox Sandbox SandboxPty",
    "nemo_gym.sandbox.config": "resolve_provider_config resolve_provider_metadata",
    "nemo_gym.sandbox.process_supervisor": "DEFAULT_CLEANUP_TIMEOUT exec_timeout",
    "nemo_gym.sandbox.providers": "ConnectableProvider create_provider register_provider",
    "nemo_gym.sandbox.providers.apptainer": "ApptainerCreateConfig ApptainerExecConfig ApptainerProvider provider",
    "nemo_gym.sandbox.providers.base": """
        ConnectableProvider SandboxCreateError SandboxExecResult SandboxSpec SandboxStatus
        """,
    "nemo_gym.sandbox.providers.docker": "DockerCreateConfig DockerExecConfig DockerProbeConfig DockerProvider",
    "nemo_gym.sandbox.providers.local": "LocalProvider",
    "nemo_gym.sandbox.providers.registry": "create_provider get_provider_class list_providers register_provider",
    "nemo_gym.sandbox.utils": "CPU_CAP_ENV_VARS cpu_cap_env rewrite_image",
    "nemo_gym.server_utils": "is_global_aiohttp_client_request_debug_enabled",
    "nemo_gym.single_agent_turn_types": """
        SingleAgentTurnRequest SingleAgentTurnResponse SingleAgentTurnResult SingleAgentTurnFailure
        SingleAgentTurnTaskInput
        """,
    "nemo_gym.skills": "stage_skills load_skill_directory SkillsRef",
    "nemo_gym.task_data": "TaskDataValidator load_task_data_schema normalize_task_fields",
    "nemo_gym.task_materialization": "materialize_task",
    "nemo_gym.testing.session_conformance": "check_resources_session_contract",
    "nemo_gym.tool_access": "ToolAccess DirectHTTPToolAccess MCPToolAccess MCPStreamableHTTPConnection",
    "nemo_gym.verifier_fixture": "VerifierFixture exercise_verifier_fixture",
    "nemo_gym.vision_input": "build_image_input",
    "nemo_gym": "_resolve_under_cwd_or_install",
}
"""Names that version 0.7.0 added and that environments and agents import."""


@pytest.mark.parametrize(("module", "names"), [*NAMES.items(), *NAMES_OF_0_7.items()])
def test_every_name_of_the_ecosystem_is_there(module: str, names: str) -> None:
    found = import_module(module)
    assert [name for name in names.split() if not hasattr(found, name)] == []


def test_the_keys_in_rows_are_spelt_as_others_spell_them() -> None:
    keys = import_module("nemo_gym.rollout_collection")
    assert keys.NG_FAILURE_CLASS_KEY == "_ng_failure_class"
    assert keys.NG_NO_PERSIST_KEY == "_ng_no_persist"
    assert keys.NG_TERMINAL_KEY == "_ng_failure_terminal"
