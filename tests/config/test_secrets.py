from __future__ import annotations

import base64
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.config.secret_forms import HIDDEN
from nemo_gym.config.secrets import add_copies, hide_in_text, hide_secrets, is_secret_name, secret_values

CANARY = "sk-canary-123"


@pytest.mark.parametrize(
    "name",
    [
        "policy_api_key",
        "openai_api_key",
        "apiKey",
        "APIKEY",
        "api-key",
        "X-Api-Key",
        "Ocp-Apim-Subscription-Key",
        "hf_token",
        "token",
        "run_token",
        "accessToken",
        "AWS_SECRET_ACCESS_KEY",
        "api_keys",
        "api_key_2",
        "apikey3",
        "access_tokens",
        "password",
        "db_password",
        "passwd",
        "client_secret",
        "secrets",
        "credentials",
        "Authorization",
        "Cookie",
        "private_key",
        "HF_TOKEN",
        "pwd",
        "db_pwd",
        "auth",
        "basic_auth",
        "auth_headers",
        "PWD_DB_PWD",
        "oauth",
        "db_pass",
        "SMTP_PASS",
        "secret_list",
        "password_values",
        "api_key_list",
        "access_token_value",
        "credentials_json",
        "private_key_pem",
        "private_key_base64",
        "slack_webhook",
        "webhook_url",
        "seed_phrase",
        "sas_url",
        "github_pat",
        "openai_key",
        "wandb_key",
        "master_key",
        "passcode",
        "aws_secretkey",
    ],
)
def test_names_of_secrets_are_recognised(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "max_output_tokens",
        "run_tokens_per_second",
        "num_tokens",
        "tokens",
        "tokenizer",
        "return_token_id_information",
        "token_ids",
        "eos_token",
        "pad_token",
        "cost_per_token",
        "key",
        "sort_key",
        "primary_key",
        "keys",
        "keyword",
        "monkey",
        "secretary",
        "password_file",
        "passwordless",
        "api_key_env_var",
        "author",
        "auth_mode",
        "auth_header",
        "PWD",
        "auth_type",
        "use_auth_header_name",
        "authority",
        "token_list",
        "token_values",
        "token_text",
        "eos_token_list",
        "list",
        "text",
        "first_pass",
        "pass",
        "num_pass",
        "phrase",
        "webhook_timeout_s",
        "path",
        "pattern",
        "answer_key",
        "storage_keys_count",
        "secret_file",
        "json",
        "headers",
        "connection_string",
        "session_id",
        "",
    ],
)
def test_names_that_only_resemble_those_of_secrets_are_left_alone(name: str) -> None:
    assert not is_secret_name(name)


def test_values_are_hidden_by_their_keys_at_every_depth() -> None:
    data = {"a": {"api_key": CANARY, "b": [{"password": 12345}]}, "credentials": {"user": "u", "list": ["x"]}}
    assert hide_secrets(data) == {
        "a": {"api_key": HIDDEN, "b": [{"password": HIDDEN}]},
        "credentials": {"user": HIDDEN, "list": [HIDDEN]},
    }


def test_a_copy_of_a_secret_is_hidden_everywhere() -> None:
    data = {"policy_api_key": CANARY, "extra": {"note": f"Bearer {CANARY}!"}, "list": [CANARY]}
    assert hide_secrets(data) == {
        "policy_api_key": HIDDEN,
        "extra": {"note": "Bearer ****!"},
        "list": [HIDDEN],
    }


def test_short_secrets_are_hidden_where_they_stand_and_do_not_garble_other_text() -> None:
    data = {"api_key": "dummy", "implementation": "dummy_model", "model": "dummy"}
    assert hide_secrets(data) == {"api_key": HIDDEN, "implementation": "dummy_model", "model": "dummy"}


@pytest.mark.parametrize("value", [None, "", True, False, "???"])
def test_empty_values_of_secret_keys_are_shown(value: Any) -> None:
    assert hide_secrets({"api_key": value}) == {"api_key": value}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://user:pass-word@host/v1", "http://****@host/v1"),
        ("see https://token-abc@host and ws://a:bcdefg@h", "see https://****@host and ws://****@h"),
        ("https://host/v1?api_key=abcdef&model=m", "https://host/v1?api_key=****&model=m"),
        ("https://host/v1?x=1&access_token=abcdef#part", "https://host/v1?x=1&access_token=****#part"),
        ("https://host/path@2?key=abc", "https://host/path@2?key=abc"),
        ("user@host", "user@host"),
    ],
)
def test_credentials_in_urls_are_hidden(text: str, shown: str) -> None:
    assert hide_secrets({"url": [text]}) == {"url": [shown]}
    assert hide_in_text(text) == shown


SIGNATURE = "abcDEF012%2Fxyz%3D"
UPPER = "ABCDEFGHIJ0123456789"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("AccountKey=abc/def==", "AccountKey=****"),
        (
            "DefaultEndpointsProtocol=https;AccountName=n;AccountKey=abc/def==;EndpointSuffix=core.windows.net",
            "DefaultEndpointsProtocol=https;AccountName=n;AccountKey=****;EndpointSuffix=core.windows.net",
        ),
        ("Endpoint=sb://x/;SharedAccessKeyName=n;SharedAccessKey=abcdef=", "Endpoint=sb://x/;SharedAccessKeyName=n;SharedAccessKey=****"),
        ("BlobEndpoint=b;SharedAccessSignature=sv=1&sig=abcdef", "BlobEndpoint=b;SharedAccessSignature=****"),
        ("Server=db;User Id=sa;Password=hunter2;", "Server=db;User Id=sa;Password=****;"),
        ("Driver={x};Server=db;Pwd=hunter2", "Driver={x};Server=db;Pwd=****"),
        ("host=db port=5432 user=u password=hunter2 dbname=d", "host=db port=5432 user=u password=**** dbname=d"),
        (f"https://a.blob.core.windows.net/c?sv=2022&se=2030&sig={SIGNATURE}", "https://a.blob.core.windows.net/c?sv=2022&se=2030&sig=****"),
        (f"sv=2022&sig={SIGNATURE}", "sv=2022&sig=****"),
        ("https://b.s3.aws/x?X-Amz-Credential=AKX&X-Amz-Signature=abcdef", "https://b.s3.aws/x?X-Amz-Credential=****&X-Amz-Signature=****"),
        (f"https://maps.example/api?key={UPPER}", "https://maps.example/api?key=****"),
        ("https://hooks.slack.com/services/T00/B00/XXXXXXXX", "https://hooks.slack.com/****"),
        ("https://discord.com/api/webhooks/123/abcdef", "https://discord.com/****"),
        ("https://x.webhook.office.com/webhookb2/abc@def/IncomingWebhook/1", "https://x.webhook.office.com/****"),
        ("https://api.telegram.org/bot123:ABCDEF/sendMessage", "https://api.telegram.org/****"),
        (f"use sk-proj-{UPPER} here", "use **** here"),
        (f"ghp_{UPPER}{UPPER}", "****"),
        (f"hf_{UPPER}{UPPER}", "****"),
        ("AKIAABCDEFGHIJKLMNOP", "****"),
        ("Bearer eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.abcdefghijkl", "Bearer ****"),
        ("a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nb", "a\n****\nb"),
    ],
)  # fmt: skip
def test_secrets_are_hidden_by_their_place_and_form_in_a_text(text: str, shown: str) -> None:
    assert hide_in_text(text) == shown
    assert hide_secrets({"note": [text]}) == {"note": [shown]}


@pytest.mark.parametrize(
    "text",
    [
        "https://host/v1/webhooks",
        "https://docs.example/guide/api?page=2&sort=key",
        "token = parse(x); y = 3",
        "x=1;y=2",
        "Let key=5 and x=3.",
        "password=x",
        "temperature=0.7 top_p=0.9",
        "max_tokens=100000 tokenizer=some/tokenizer",
        "task-12345678901234567890 and ask-me-anything-about-this-question",
        "SELECT * FROM t WHERE a=1;",
        "hf_hub",
    ],
)
def test_texts_that_only_resemble_secrets_are_left_alone(text: str) -> None:
    assert hide_in_text(text) == text
    assert hide_secrets({"note": text}) == {"note": text}


def test_a_key_continues_the_key_above_it() -> None:
    data = {"access": {"key": CANARY, "id": "x"}, "storage": [{"keys": [CANARY]}], "sort": {"key": "name"}}
    assert hide_secrets(data) == {
        "access": {"key": HIDDEN, "id": "x"},
        "storage": [{"keys": [HIDDEN]}],
        "sort": {"key": "name"},
    }
    assert secret_values(data) == {CANARY}


def test_headers_are_hidden_by_their_names() -> None:
    headers = {"Authorization": f"Bearer {CANARY}", "api-key": CANARY, "Content-Type": "application/json"}
    assert hide_secrets({"default_headers": headers})["default_headers"] == {
        "Authorization": HIDDEN,
        "api-key": HIDDEN,
        "Content-Type": "application/json",
    }


def test_a_server_named_like_a_secret_is_not_hidden() -> None:
    data = {"fortune_cookie": {"resources_servers": {"cookie": {"entrypoint": "app.py", "api_key": CANARY}}}}
    assert hide_secrets(data)["fortune_cookie"]["resources_servers"]["cookie"] == {
        "entrypoint": "app.py",
        "api_key": HIDDEN,
    }


def test_secrets_for_scrubbing_are_those_that_are_long_enough_to_be_searched_for() -> None:
    data = {"a_token": CANARY, "api_key": "EMPTY", "url": "http://me:password1@host", "model": "m", "n": 5}
    assert secret_values(data) == {CANARY, "me:password1", "password1"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.just(CANARY),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["api_key", "name", "max_tokens", "headers"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(JSON)
def test_a_known_secret_never_survives_and_the_shape_always_does(data: Any) -> None:
    hidden = hide_secrets(data, known=[CANARY])
    assert CANARY not in repr(hidden)
    assert _shape(hidden) == _shape(data)


@given(JSON)
def test_hiding_twice_is_hiding_once(data: Any) -> None:
    assert hide_secrets(hide_secrets(data)) == hide_secrets(data)


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shape(below) for key, below in value.items()}
    return [_shape(item) for item in value] if isinstance(value, list) else "leaf"


@pytest.mark.parametrize(
    "text",
    [
        "tool --token {} --verbose", "tool --api-key={}", "run --client-secret '{}'", "PGPASSWORD={} psql",
        "export SSHPASSWORD={}", "machine h login me password {}", "tool --hf-token={}",
    ],
)  # fmt: skip
def test_a_secret_of_a_command_line_is_hidden(text: str) -> None:
    key = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0hL3nR6uX9a"
    assert hide_in_text(text.format(key)) == text.format(HIDDEN)


@pytest.mark.parametrize(
    "text", ["--tokenizer Qwen2.5-1.5B-x9y8z7", "--max-tokens 1234567890123", "login: x, password unknown"]
)
def test_an_option_that_is_no_secret_is_shown(text: str) -> None:
    assert hide_in_text(text) == text


def test_copies_of_a_secret_in_other_spellings_are_hidden() -> None:
    secret = "p@ss word/123"
    copies = add_copies({secret})
    for copy in (secret, quote(secret, safe=""), base64.b64encode(secret.encode()).decode()):
        assert secret not in hide_in_text(f"printed {copy} here", copies)
        assert copy.rstrip("=") not in hide_in_text(f"printed {copy} here", copies)
    assert add_copies({"\ud800-lone"}) > {"\ud800-lone"}
