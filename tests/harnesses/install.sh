#!/usr/bin/env bash
# Installs the agents of tests/harnesses, pinned, into .venvs/harnesses: 1.5 GB. One that cannot be installed is skipped
# by its test, with the error in .venvs/harnesses/errors.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=.venvs/harnesses
npm_packages=(
    "claude_code=@anthropic-ai/claude-code@2.1.197"
    "codex=@openai/codex@0.169.0"
    "opencode=opencode-ai@1.18.33"
    "qwen_code=@qwen-code/qwen-code@0.15.10"
)
pip_packages=(openai-agents "smolagents[openai,mcp]" "pydantic-ai-slim[openai,mcp]" mini-swe-agent)
langgraph=(langgraph langchain langchain-anthropic langchain-mcp-adapters)

# `install.sh resolve BIN` only asks the package registries whether the packages can be installed.
if [ "${1:-}" = resolve ]; then
    "$2/python" -m pip install --quiet --disable-pip-version-check --dry-run --ignore-installed "${pip_packages[@]}" "${langgraph[@]}"
    for entry in "${npm_packages[@]}"; do npm view --json "${entry#*=}" version > /dev/null; done
    exit
fi

mkdir -p "$folder/errors"
attempt() { # NAME COMMAND...
    local name=$1
    shift
    [ -f "$folder/errors/$name.none" ] && return
    if "$@" > "$folder/errors/$name" 2>&1; then mv "$folder/errors/$name" "$folder/errors/$name.none"; fi
}
for entry in "${npm_packages[@]}"; do
    attempt "${entry%%=*}" npm install --prefix "$folder" --no-audit --no-fund --ignore-scripts "${entry#*=}"
done
# Their scripts put programs into place, which npm may not run.
[ -d "$folder/node_modules/@anthropic-ai/claude-code" ] && (cd "$folder/node_modules/@anthropic-ai/claude-code" && node install.cjs > /dev/null)
[ -d "$folder/node_modules/opencode-ai" ] && (cd "$folder/node_modules/opencode-ai" && node postinstall.mjs > /dev/null)
[ -x "$folder/venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$folder/venv"
pip=("$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check)
attempt openai_agents "${pip[@]}" openai-agents
attempt smolagents "${pip[@]}" "smolagents[openai,mcp]"
attempt pydantic_ai "${pip[@]}" "pydantic-ai-slim[openai,mcp]"
attempt langgraph "${pip[@]}" "${langgraph[@]}"
attempt mini_swe_agent "${pip[@]}" mini-swe-agent
