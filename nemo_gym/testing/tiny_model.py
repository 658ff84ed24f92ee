"""A tiny chat model with random weights: under 2 MB, made in a few seconds. Needs torch and transformers.

It has a byte-level tokenizer, a ChatML template with tools, and Qwen3's architecture. `python tiny_model.py FOLDER`
saves one to a folder; this file imports nothing else of the package.
"""

from __future__ import annotations

import json
import random
import string
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

__all__ = ["make_model", "make_tokenizer"]

END_OF_TEXT, START_OF_TURN, END_OF_TURN = SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
VOCABULARY = 2048
CONTEXT = 4096

CHAT_TEMPLATE = """\
{%- if tools %}{{- '<|im_start|>system\\n# Tools\\n' }}
{%- for tool in tools %}{{- tool | tojson }}{{- '\\n' }}{% endfor %}{{- '<|im_end|>\\n' }}{% endif %}
{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.role == 'assistant' %}{% generation %}
{%- if message.content %}{{- message.content }}{% endif %}
{%- for call in message.tool_calls or [] %}
{%- set arguments = call.function.arguments %}
{{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- arguments if arguments is string else arguments | tojson }}{{- '}\\n</tool_call>' }}{% endfor %}
{{- '<|im_end|>' }}{% endgeneration %}{{- '\\n' }}
{%- else %}{%- if message.content %}{{- message.content }}{% endif %}{{- '<|im_end|>\\n' }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}"""


def make_tokenizer(texts: Iterable[str] | None = None) -> Any:
    """Train a tokenizer on `texts`, by default on random words and tool calls."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(_random_texts() if texts is None else texts, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END_OF_TURN, pad_token=END_OF_TEXT)
    fast.chat_template = CHAT_TEMPLATE
    return fast


def make_model(tokenizer: Any, *, seed: int = 0) -> Any:
    """Make a model with random weights for `tokenizer`."""
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=VOCABULARY,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=32,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=False,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def _random_texts() -> list[str]:
    rng = random.Random(0)
    words = ["".join(rng.choices(string.ascii_lowercase, k=rng.randint(2, 8))) for _ in range(3000)]
    lines = [" ".join(rng.choices(words, k=12)) for _ in range(2000)]
    calls = [json.dumps({"name": "get_weather", "arguments": {"city": word}}) for word in words[:500]]
    return [*lines, *calls, *("user assistant system tool tool_call arguments name" for _ in range(100))]


def save(folder: Path) -> None:
    """Save a model and its tokenizer to `folder`."""
    tokenizer = make_tokenizer()
    tokenizer.save_pretrained(folder)
    make_model(tokenizer).save_pretrained(folder)


if __name__ == "__main__":
    save(Path(sys.argv[1]))
