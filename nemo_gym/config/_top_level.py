"""The top-level keys that are not servers: types, defaults, and unknown keys."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from nemo_gym.config._compose import INITIAL
from nemo_gym.config._interpolation import references
from nemo_gym.config._overrides import COMMAND_LINE
from nemo_gym.config._provenance import DEFAULT
from nemo_gym.config.keys import GlobalKeys, is_pointless, own_address
from nemo_gym.config.problems import Problems, did_you_mean
from nemo_gym.config.pydantic_problems import validate
from nemo_gym.config.servers import is_server_block
from nemo_gym.config.spelling import suggest_option
from nemo_gym.config.tree import DIRECTIVE_TEXT, DictTree, Scalar, Tree, leaves
from nemo_gym.names import ALLOW_UNSANDBOXED, ALLOWED_HOSTS, OPEN_NETWORK

TOKEN_ID_CAPTURE_BLOCK = "token_id_capture"
RISKS = {ALLOW_UNSANDBOXED: "true", OPEN_NETWORK: "true", ALLOWED_HOSTS: "[...]"}
"""Keys with which a user accepts a risk, and a value for messages."""


def fill_defaults(root: DictTree, data: dict[str, Any], problems: Problems) -> GlobalKeys:
    """Check the global keys in `data`, and add the defaults on which servers and the launcher rely."""
    given = {key: data[key] for key in GlobalKeys.model_fields if data.get(key) is not None}
    keys = validate(GlobalKeys, given, root, problems)
    if keys is None:  # continue with the valid keys, so that later checks can use them
        keys = GlobalKeys.model_validate({key: given[key] for key in given if _is_right(key, given[key])})
    for key in given:
        field = GlobalKeys.model_fields[key]
        if is_pointless(field) and given[key] is not False:
            problems.warn(f"{root.entries[key].where}: {key}: {_first_lower(field.description)}")
    data["default_host"] = (
        own_address() if keys.use_absolute_ip and "default_host" not in given else keys.default_host
    )
    data["head_server"] = {
        "host": keys.head_server.host or data["default_host"],
        "port": keys.head_server.port,
    }
    for key in ("error_on_almost_servers", "dry_run", "use_absolute_ip"):
        data[key] = getattr(keys, key)
    return keys


def check_sources(root: DictTree, env: DictTree, problems: Problems) -> None:
    """Check keys that a gym cannot honour, and that a risk is not accepted by the files of an environment."""
    _refuse_external_staging(root, problems)
    own_sources = {COMMAND_LINE, INITIAL.source, env.where.source}
    for key, value in RISKS.items():
        tree = root.entries.get(key)
        if tree is not None and tree.where.source not in own_sources:
            problems.add(
                tree.where,
                f"A configuration file may not set {key!r}.",
                f"Remove it. `env.yaml` and the command line of the command that starts the gym (+{key}={value}) may.",
            )


def _refuse_external_staging(root: DictTree, problems: Problems) -> None:
    """Report that tokens are staged outside of the gym, which a trainer would miss at its first rollout."""
    block = root.entries.get(TOKEN_ID_CAPTURE_BLOCK)
    asked = block.entries.get("external_staging") if isinstance(block, DictTree) else None
    if isinstance(asked, Scalar) and asked.value:
        problems.add(
            asked.where,
            f"{TOKEN_ID_CAPTURE_BLOCK}.external_staging is not supported.",
            "Turn token_capture off in the trainer: rows carry the tokens that the model servers capture, in the "
            "fields that trainers read (return_token_id_information; docs/tokens.md).",
        )


def _is_right(key: str, value: Any) -> bool:
    return validate(GlobalKeys, {key: value}, DictTree({}, DEFAULT), Problems()) is not None


def give_agents_their_defaults(data: dict[str, Any], keys: GlobalKeys) -> None:
    """Copy `skip_verification` from the top level to every agent that does not set it."""
    defaults = {
        key: value
        for key in ("skip_verification", "skip_verification_reward")
        if (value := getattr(keys, key)) is not None
    }
    for block in data.values():
        agents = block.get("responses_api_agents") if isinstance(block, Mapping) else None
        for config in agents.values() if isinstance(agents, Mapping) else ():
            if isinstance(config, dict):
                config |= {key: value for key, value in defaults.items() if key not in config}


def report_unknown_keys(
    root: DictTree, unresolved: DictTree, data: Mapping[str, Any], known: Collection[str], problems: Problems
) -> None:
    """Report top-level keys that are not used, which are most often typos.

    Used keys are the `known` ones, those that interpolations or directives refer to, and those that any string names.
    An unused list or mapping of a file is only a warning, because configurations keep YAML anchors in such keys.
    """
    read = set(known) | _list_named_keys(unresolved)
    for key, tree in root.entries.items():
        if key in read or is_server_block(tree) or (_is_null(tree) and tree.overridden):
            continue
        message = f"The key {key!r} is not used."
        remedy = did_you_mean(key, {*known, *_list_servers(root)}) or suggest_option(key)
        is_anchor = isinstance(data.get(key), dict | list) and tree.where.source != COMMAND_LINE
        if is_anchor or tree.where == INITIAL:
            problems.warn(f"{tree.where}: {message}{f' {remedy}' if remedy else ''}")
        else:
            problems.add_absence(
                tree.where,
                message,
                remedy or "Remove it, or refer to it by `${...}`.",
            )


def _list_named_keys(root: DictTree) -> set[str]:
    """Return the dotted paths, and their top-level keys, that any string of the configuration names."""
    dotted = {name for names in references(root).values() for name in names}
    for _, tree in leaves(root):
        if isinstance(tree, Scalar) and isinstance(tree.value, str):
            match = DIRECTIVE_TEXT.fullmatch(tree.value)
            dotted.add(match[2].strip() if match else tree.value)
    return dotted | {name.split(".")[0].split("[")[0] for name in dotted}


def _list_servers(root: DictTree) -> set[str]:
    return {name for name, tree in root.entries.items() if is_server_block(tree)}


def _is_null(tree: Tree) -> bool:
    return isinstance(tree, Scalar) and tree.value is None


def _first_lower(text: str | None) -> str:
    return f"{text[0].lower()}{text[1:]}" if text else ""
