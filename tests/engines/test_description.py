"""The facts by which two engines are told apart."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.engines.description import describe_engines

VLLM = {
    "id": "policy",
    "object": "model",
    "created": 1700000000,
    "owned_by": "vllm",
    "root": "Qwen/Qwen3-8B",
    "parent": None,
    "max_model_len": 4096,
    "permission": [{"id": "modelperm-1", "created": 1700000000}],
}


def describe(*entries: dict[str, Any], versions: tuple[bytes | None, ...] = (None,)) -> dict[str, Any]:
    return describe_engines(entries, versions, "policy", {"sk-secret-value"})


def test_an_engine_is_known_by_its_model_and_its_version() -> None:
    assert describe(VLLM, versions=(b'{"version": "0.10.1"}',)) == {
        "id": "policy",
        "max_model_len": 4096,
        "owned_by": "vllm",
        "root": "Qwen/Qwen3-8B",
        "version": "0.10.1",
    }


@pytest.mark.parametrize(
    "change",
    [{"created": 1800000000}, {"permission": []}, {"unheard_of": "x"}, {"root": None}, {"parent": ""}],
)
def test_a_restart_changes_no_fact(change: dict[str, Any]) -> None:
    before, after = describe(VLLM), describe({**VLLM, **change})
    assert after == {name: value for name, value in before.items() if name in after}


@pytest.mark.parametrize(
    "change",
    [
        {"root": "Qwen/Qwen3-8B-AWQ"},
        {"max_model_len": 8192},
        {"owned_by": "sglang"},
        {"parent": "Qwen/Qwen3-8B"},
        {"meta": {"n_params": 8, "size": 4}},
    ],
)
def test_another_engine_has_another_fact(change: dict[str, Any]) -> None:
    assert describe({**VLLM, **change}) != describe(VLLM)


def test_quantization_is_seen_by_the_size_that_llama_cpp_tells() -> None:
    first, second = (
        describe({"id": "policy", "owned_by": "llamacpp", "meta": {"n_params": 8, "size": size}})
        for size in (4, 8)
    )
    assert (first["meta_size"], second["meta_size"]) == (4, 8)


def test_other_models_of_an_engine_do_not_count() -> None:
    assert describe(VLLM, {**VLLM, "id": "adapter", "root": "x"}) == describe(VLLM)


def test_replicas_are_one_engine_whose_facts_are_lists_where_they_differ() -> None:
    assert describe(VLLM, VLLM) == describe(VLLM)
    mixed = describe(
        VLLM, {**VLLM, "max_model_len": 2048}, versions=(b'{"version": "2"}', b'{"version": "1"}')
    )
    assert (mixed["max_model_len"], mixed["version"]) == ([2048, 4096], ["1", "2"])


@pytest.mark.parametrize(
    "body", [None, b"", b"<html>", b"[]", b"{}", b'{"version": null}', b'{"version": {"a": 1}}']
)
def test_an_engine_that_does_not_tell_its_version_has_none(body: bytes | None) -> None:
    assert "version" not in describe(VLLM, versions=(body,))


def test_no_key_is_a_fact() -> None:
    echoed = describe(
        {**VLLM, "owned_by": "sk-secret-value"}, versions=(b'{"version": "for sk-secret-value"}',)
    )
    assert "sk-secret-value" not in str(echoed)
    long = describe({**VLLM, "root": "x" * 1000})
    assert "root" not in long


def test_an_engine_without_a_list_has_no_facts() -> None:
    assert describe() == {}
