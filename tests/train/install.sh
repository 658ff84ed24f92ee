#!/usr/bin/env bash
# Builds .venvs/train with TRL and the gym, for the examples: 2 minutes, 1.6 GB. `install.sh loaders` adds the loaders of
# verl and verifiers, in folders of their own, because they ask for other versions of transformers and openai: 2 minutes
# and 0.6 GB more.
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=.venvs/train
edition=$(cksum < tests/train/install.sh | cut -d' ' -f1)
pip=("$venv/bin/python" -m pip --quiet --disable-pip-version-check)
trl=(trl==1.16.0 requests "transformers==5.23.*" "datasets==5.2.*")

# `install.sh resolve BIN` only asks the package registry whether the environment can be built.
if [ "${1:-}" = resolve ]; then
    exec "$2/python" -m pip install --quiet --disable-pip-version-check --dry-run --ignore-installed torch==2.13.0 "${trl[@]}"
fi
constraints=$(mktemp)
trap 'rm -f "$constraints"' EXIT

keep_torch() {
    "$venv/bin/python" -c 'import torch; print(f"torch=={torch.__version__}")' > "$constraints"
}

if [ ! -f "$venv/.ready-$edition" ]; then
    "${PYTHON:-python3}" -m venv --clear "$venv"
    "${pip[@]}" install torch==2.13.0
    keep_torch
    "${pip[@]}" install --constraint "$constraints" "${trl[@]}"
    "${pip[@]}" install --constraint "$constraints" -e '.[export]' pytest pytest-asyncio hypothesis
    touch "$venv/.ready-$edition"
fi

if [ "${1:-}" = loaders ] && [ ! -f "$venv/.loaders-$edition" ]; then
    keep_torch
    # What verl's datasets and agent loops import; the engines and kernels that it trains with are not needed for them.
    "${pip[@]}" install --constraint "$constraints" ray "tensordict>=0.8,<=0.10,!=0.9.0" pillow pandas httpx \
        codetiming hydra-core cachetools
    "${pip[@]}" install --no-deps --upgrade --target "$venv/verl" \
        verl==0.9.1 "transformers<5.11" "tokenizers<=0.23.0" "huggingface-hub<2"
    "${pip[@]}" install --upgrade --target "$venv/verifiers" verifiers==0.4.0
    touch "$venv/.loaders-$edition"
fi
