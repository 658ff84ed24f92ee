"""Keys of services are recognized by their form; ordinary texts are left alone."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from typing import Any

import pytest

from nemo_gym.config.secret_forms import HIDDEN, Scrubber, is_generated
from nemo_gym.config.secrets import hide_in_text, hide_secrets

MIXED = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0hL3nR6uX9a"
HEX = hashlib.sha256(b"x").hexdigest()[:40]


@pytest.mark.parametrize(
    "key",
    [
        f"gsk_{MIXED}", f"xai-{MIXED}", f"pplx-{MIXED}", f"r8_{MIXED}", f"csk-{HEX}", f"sk-ant-api03-{MIXED}",
        f"sk-or-v1-{HEX}", f"nvapi-{MIXED}", f"tgp_v1_{MIXED}", f"jina_{HEX}", f"tvly-{MIXED}", f"hvs.{MIXED}",
        f"lsv2_pt_{HEX}", f"sk_live_{MIXED}", f"rk_test_{MIXED}", f"npm_{MIXED}", f"pypi-{MIXED}", f"glpat-{MIXED}",
        f"dop_v1_{HEX}", f"SG.{MIXED[:22]}.{MIXED}", "ASIAABCDEFGHIJKLMNOP", f"GOCSPX-{MIXED[:28]}", f"ya29.{MIXED}",
        f"sk_{HEX}", f"unknown_{MIXED}", f"new-api-{MIXED}", f"dapi{HEX}",
    ],
)  # fmt: skip
def test_a_key_of_a_service_is_hidden_wherever_it_stands(key: str) -> None:
    assert hide_in_text(f"use {key}, please") == f"use {HIDDEN}, please"
    assert hide_secrets({"note": f"KEY='{key}'"}) == {"note": f"KEY='{HIDDEN}'"}
    assert hide_secrets({"kept": {key: 1}}) == {"kept": {HIDDEN: 1}}


@pytest.mark.parametrize(
    "text",
    [
        f"export KAGGLE_KEY={HEX}",
        f'{{"username": "me", "api_key": "{HEX}"}} was printed',
        json.dumps(json.dumps({"args": json.dumps({"api_key": HEX})})),
        f"printed {json.dumps(json.dumps({'client_secret': HEX}))} here",
        f"the api_key is {HEX}",
        f"curl -H 'Authorization: Bearer {MIXED}' https://host",
        f"headers={{'X-Api-Key': '{MIXED}'}}",
        f"WEATHER_KEY: {HEX}",
        f"password = '{MIXED}'",
    ],
)
def test_a_key_is_hidden_by_the_name_before_it(text: str) -> None:
    hidden = hide_in_text(text)
    assert HIDDEN in hidden
    assert HEX not in hidden
    assert MIXED not in hidden


@pytest.mark.parametrize("name", ["KAGGLE_KEY", "WEATHER_API_KEY", "SOME_SERVICE_KEY", "weather_key"])
def test_every_name_that_ends_in_key_can_hold_one(name: str) -> None:
    assert hide_secrets({name: HEX, "note": f"printed {HEX}"}) == {name: HIDDEN, "note": f"printed {HIDDEN}"}


def test_a_password_in_json_in_a_text_is_hidden_by_its_name() -> None:
    text = json.dumps({"a": json.dumps({"password": 'with"quote-x', "user": "me"})})
    hidden = hide_secrets({"arguments": text})["arguments"]
    assert json.loads(json.loads(hidden)["a"]) == {"password": HIDDEN, "user": "me"}


def test_two_keys_that_are_secrets_stay_two() -> None:
    hidden = hide_secrets({f"gsk_{MIXED}": 1, f"xai-{MIXED}": 2})
    assert sorted(hidden.values()) == [1, 2]


@pytest.mark.parametrize(
    "text",
    [
        hashlib.sha256(b"x").hexdigest(),
        f"commit {HEX}",
        f"sha256:{hashlib.sha256(b'x').hexdigest()}",
        str(uuid.UUID(int=1 << 100)),
        f"call_{uuid.UUID(int=1 << 100).hex}",
        "chatcmpl-AbC1dEf2GhI3jKl4MnO5pQr6StU7v",
        "call_aB3dE6gH9jK2mN5pQ8sT1vW4",
        base64.b64encode(bytes(range(256))).decode(),
        base64.urlsafe_b64encode(bytes(range(255, -1, -1)) * 3).decode(),
        "data:image/png;base64," + base64.b64encode(bytes(range(256))).decode(),
        "def key_of(row):\n    token = tokenizer.convert_ids_to_tokens(row['token_id_2'])\n    return token",
        "sort_key = lambda row: (row.created_at_2024, row.index)",
        "api_key = os.environ['OPENAI_API_KEY']",
        "client = Client(api_key=get_secret_from_vault2(name1))",
        "sk_model_selection_kfold_5_of_the_best and fw_version_number_2_of_the_board",
        "The key is understanding that x_1 + x_2 = 12345678901234567890.",
        "primary_key: user_id_2_of_table_3, cache_key: d41d8cd98f00b204e9800998ecf8427e",
        "max_tokens=100000 eos_token=<|endoftext|> pad_token: [PAD]",
        "model: Qwen/Qwen2.5-Coder-32B-Instruct-GPTQ-Int4",
        "token: gpt-4o-mini-2024-07-18-preview",
        "The token is a word of 3 letters; the secret was well kept.",
        '{"answer": [1, 2, {"token": "harmless", "logprob": -0.5}]}',
        "sk-learn-compatible-estimators-and-pipelines",
        "https://arxiv.org/abs/2401.00001v2 and https://github.com/a/b/commit/" + HEX,
        r"\boxed{\frac{12345}{67890}} \text{secret: } x = 5",
        "secret_santa_pairs_for_the_office_2024 = {}",
    ],
)
def test_ordinary_outputs_are_left_alone(text: str) -> None:
    assert hide_in_text(text) == text
    assert hide_secrets({"output": [{"text": text}]}) == {"output": [{"text": text}]}


@pytest.mark.parametrize(
    "row",
    [
        {"cache_key": HEX, "task_key": HEX, "sort_key": "a1b2c3d4e5f6a7b8c9"},
        {"id": f"resp_{HEX}", "prompt_hash": HEX, "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy"},
        {"reward_key": "score_of_the_first_try", "key": HEX},
    ],
)
def test_names_of_data_are_left_alone(row: dict[str, Any]) -> None:
    assert hide_secrets(row) == row


@pytest.mark.parametrize(
    "value", ["abcdefghijklmnop", "1234567890123456789", "gpt-4o-mini-2024-07-18", "short1a2"]
)
def test_names_and_numbers_are_not_generated(value: str) -> None:
    assert not is_generated(value)


@pytest.mark.parametrize("count", [2, 1000])
def test_few_and_many_texts_are_hidden_alike(count: int) -> None:
    hidden = [f"secret-{number:04}" for number in range(count)]
    text = " ".join([*hidden, "secret-", "secret-x"])
    assert Scrubber(hidden).hide(text) == " ".join([HIDDEN] * count + ["secret-", "secret-x"])
    assert Scrubber([*hidden, "secret-0001-longer"]).hide("secret-0001-longer") == HIDDEN


def test_a_row_with_very_many_secrets_is_hidden() -> None:
    keys = [f"sk-{hashlib.sha256(b'%d' % number).hexdigest()}" for number in range(16_000)]
    row = {"texts": keys, "whole": " ".join(keys), "passwords": [{"password": key[::-1]} for key in keys]}
    hidden = hide_secrets(row)
    assert set(hidden["texts"]) == {HIDDEN}
    assert set(hidden["whole"].split()) == {HIDDEN}
