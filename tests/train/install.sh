#!/usr/bin/env bash
# Builds .venvs/train: TRL beside the gym, and the loaders of other trainers in folders of their own, because they ask
# for other versions of transformers and openai. 2 to 4 minutes, 2.5 GB.
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=.venvs/train
ready="$venv/.ready-$(cksum < tests/train/install.sh | cut -d' ' -f1)"
[ -f "$ready" ] && exit 0

"${PYTHON:-python3}" -m venv --clear "$venv"
pip=("$venv/bin/python" -m pip --quiet --disable-pip-version-check)
"${pip[@]}" install torch==2.13.0
constraints=$(mktemp)
trap 'rm -f "$constraints"' EXIT
"$venv/bin/python" -c 'import torch; print(f"torch=={torch.__version__}")' > "$constraints"
"${pip[@]}" install --constraint "$constraints" trl==1.16.0 "transformers==5.23.*" "datasets==5.2.*"
"${pip[@]}" install --constraint "$constraints" -e '.[export]' pytest pytest-asyncio

# What verl's datasets import; the engines and kernels that it trains with are not needed to load a file.
"${pip[@]}" install --constraint "$constraints" ray "tensordict>=0.8,<=0.10,!=0.9.0" pillow pandas httpx
"${pip[@]}" install --no-deps --target "$venv/verl" \
    verl==0.9.1 "transformers<5.11" "tokenizers<=0.23.0" "huggingface-hub<2"
"${pip[@]}" install --target "$venv/verifiers" verifiers==0.4.0
touch "$ready"
