"""The configuration of a sandbox provider.

sandbox_provider: sandbox        # the name of a top-level block, or the block itself
sandbox:
  local: {}                      # one provider and its options
  default_metadata: {team: gym}  # labels for every sandbox of the provider
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEFAULT_METADATA = "default_metadata"


def resolve_provider_config(
    sandbox_provider: str | Mapping[str, Any], named_configs: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """`{provider name: options}` from a block, or from the top-level block with the given name.

    Raises ValueError if there is no such block, or if it does not name exactly one provider.
    """
    block, where = _find_block(sandbox_provider, named_configs)
    names = [name for name in block if name != DEFAULT_METADATA]
    if len(names) != 1:
        raise ValueError(f"{where} must name one provider, not {len(names)}: {', '.join(names) or 'none'}")
    options = block[names[0]]
    if options is not None and not isinstance(options, Mapping):
        raise ValueError(f"{where}: the options of {names[0]} must be a mapping, not {options!r}")
    return {names[0]: options}


def resolve_provider_metadata(
    sandbox_provider: str | Mapping[str, Any], named_configs: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The block's `default_metadata`: labels for every sandbox. Raises ValueError as `resolve_provider_config`."""
    block, where = _find_block(sandbox_provider, named_configs)
    metadata = block.get(DEFAULT_METADATA) or {}
    if not isinstance(metadata, Mapping):
        raise ValueError(f"{where}: {DEFAULT_METADATA} must be a mapping, not {metadata!r}")
    return dict(metadata)


def _find_block(
    sandbox_provider: str | Mapping[str, Any], named_configs: Mapping[str, Any] | None
) -> tuple[Mapping[str, Any], str]:
    where = "sandbox_provider"
    block: Any = sandbox_provider
    if isinstance(sandbox_provider, str):
        where = f"the block {sandbox_provider!r}"
        block = (named_configs or {}).get(sandbox_provider)
        if block is None:
            raise ValueError(
                f"sandbox_provider names the top-level block {sandbox_provider!r}, which does not exist"
            )
    if not isinstance(block, Mapping):
        raise ValueError(f"{where} must map a provider's name to its options, not be {block!r}")
    return _convert_to_plain(block), where


def _convert_to_plain(block: Mapping[str, Any]) -> Mapping[str, Any]:
    from omegaconf import DictConfig, OmegaConf

    if not isinstance(block, DictConfig):
        return block
    plain = OmegaConf.to_container(block, resolve=True)
    assert isinstance(plain, dict)
    return {str(name): value for name, value in plain.items()}
