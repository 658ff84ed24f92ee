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
    "inspector=@modelcontextprotocol/inspector@0.16.8" # version 2 needs Node 22
    "filesystem=@modelcontextprotocol/server-filesystem@2026.8.31"
)
openai_agents=openai-agents==0.24.0
smolagents=("smolagents[openai,mcp]==1.26.0" "mcp<2" websockets) # which its MCP client imports
pydantic_ai="pydantic-ai-slim[openai,mcp]==2.68.0"
mini_swe_agent=(mini-swe-agent==2.4.6 mcp==2.3.0)
pip_packages=("$openai_agents" "${smolagents[0]}" "$pydantic_ai" "${mini_swe_agent[@]}")
textarena=(textarena==0.7.4 nltk==3.10.0 chess==1.11.2)
langgraph=(langgraph==1.2.22 langchain==1.4.7 langchain-anthropic==1.7.7 langchain-mcp-adapters==0.3.2)

# `install.sh resolve BIN` only asks the package registries whether they have the packages.
if [ "${1:-}" = resolve ]; then
    "$2/python" -m pip install --quiet --disable-pip-version-check --dry-run --ignore-installed --no-deps \
        "${pip_packages[@]}" "${langgraph[@]}" "${textarena[0]}"
    command -v npm > /dev/null || { echo "not checked: the agents of npm, which need Node"; exit; }
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
# smolagents and LangGraph need an mcp below 2, and mini-swe-agent's litellm an openai below 3.
for venv in "$folder/venv" "$folder/mcp1/venv" "$folder/litellm/venv"; do
    [ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
done
pip=(-m pip install --quiet --disable-pip-version-check)
attempt smolagents "$folder/mcp1/venv/bin/python" "${pip[@]}" "${smolagents[@]}"
attempt langgraph "$folder/mcp1/venv/bin/python" "${pip[@]}" "${langgraph[@]}"
attempt mini_swe_agent "$folder/litellm/venv/bin/python" "${pip[@]}" "${mini_swe_agent[@]}"
pip=("$folder/venv/bin/python" "${pip[@]}")
attempt openai_agents "${pip[@]}" "$openai_agents"
attempt pydantic_ai "${pip[@]}" "$pydantic_ai"
# Games, beside the packages that the gym has itself.
attempt textarena .venv/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --target "$folder/textarena" "${textarena[@]}"
