# `make demo` runs three environments on a scripted policy; `make test` runs the tests.
# Both need Python 3.11+ and a package registry, and nothing else.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
# Versions that are known to work together; `make test-newest` tries the newest instead.
CONSTRAINTS := -c constraints.txt
PASSED = @$(PYTHON) -m tests.heavy_suites passed $@
SOURCES := nemo_gym resources_servers responses_api_agents responses_api_models environment_servers simulation perf tests examples conftest.py

.PHONY: demo test audit coverage test-python test-newest constraints chaos simulate check format test-packaging test-cluster test-slices slice-python slice-collect slice-cluster slice-train slice-vllm slice-browser slice-harnesses slice-foreign test-docs test-vllm test-train test-trackers test-browser screenshots bench-viewer test-harnesses test-folders test-foreign page test-ecosystem docs example-grpo example-offline example-async bench clean

demo: .venv/.demo
	@echo "The policy of this demo is a script, not a model: what it scores shows the machinery, not a skill."
	$(BIN)/ng_e2e_collect_rollouts "+config_paths=[configs/demo.yaml]" \
		+output_jsonl_fpath=results/demo/rollouts.jsonl +num_repeats=4 +num_repeats_add_seed=true +overwrite=true
	@echo "The policy was a script. With a model: see \`With a model\` in README.md, or try"
	@echo "  $(BIN)/ng_run '+config_paths=[configs/demo.yaml]'    and in another shell    $(BIN)/ng_status"

test: .venv/.dev
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
	$(PASSED)

# The tests on another Python: PYTHON=python3.13, and TESTS for a part of them.
test-python:
	$(PYTHON) -m venv .venvs/python
	.venvs/python/bin/python -m pip install --quiet --disable-pip-version-check $(CONSTRAINTS) -e '.[dev]'
	.venvs/python/bin/python -m pytest -n 2 --dist loadfile $(TESTS)

# The branches that the rooms' own tests take, of the rooms that pyproject.toml names: below its floor this fails. With
# TESTS=tests and `coverage report --include='nemo_gym/*' --fail-under=0`, those of the whole suite.
COVERED := $(addprefix tests/,rows tokens episodes transport rollouts/plan rollouts/output rollouts/run)
coverage: .venv/.dev
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n 2 --dist loadfile $(or $(TESTS),$(COVERED))
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

# The tests with the newest packages that their ranges allow, in an environment of its own. `make constraints` afterwards
# makes these versions the ones that everybody installs.
test-newest:
	$(MAKE) test-python CONSTRAINTS=--upgrade

constraints:
	(sed '/^[^#]/,$$d' constraints.txt; .venvs/python/bin/python -m pip freeze --exclude-editable) > .constraints && mv .constraints constraints.txt

# The files of which `make test` tries a sample (tests/samples.py).
SAMPLED := $(addprefix tests/,rollouts/test_killed.py engines/gateway/test_reading.py simulation/test_play.py \
	simulation/test_planted_bugs.py simulation/test_served_sessions.py simulation/test_gateway_records.py cli/test_planted_mistakes.py) \
	$(addprefix resources_servers/,math_with_judge/tests/test_math_equality.py code_gen/tests/test_hostile.py)

# What `make test` runs in miniature: hundreds of rollouts under faults, a hundred kills, engines that die, every attack
# and every planted mistake. It takes forty minutes and prints the figures of each experiment.
chaos: .venv/.dev
	NEMO_GYM_TEST_WHOLE=1 $(BIN)/python -m pytest -s -o faulthandler_timeout=0 tests/chaos/chaos_*.py tests/chaos/test_*.py $(SAMPLED)
	$(PASSED)

# Whole collections in virtual time, each under random faults of its own: SEEDS=20 for a quick look.
simulate: .venv/.dev
	$(BIN)/python -m simulation +seeds=$(or $(SEEDS),1000)
	$(if $(SEEDS),,$(PASSED))

# The wheel in a fresh environment, from an empty folder: a minute, most of it pip's.
test-packaging: .venv/.dev
	NEMO_GYM_TEST_PACKAGING=1 $(BIN)/python -m pytest tests/packaging

check: .venv/.dev
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/lint-imports
	$(BIN)/mypy
	@$(PYTHON) -m tests.heavy_suites

format: .venv/.dev
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

# The environments, agents and configurations of the ecosystem's wheel beside our package: 20 minutes to install, then
# STAGE=imports (a minute), STAGE=configurations, STAGE=refusals (ten minutes), STAGE=tests (an hour; FOLDERS=word,word
# runs a sample, VERSION=0.5.1 the folders of that version) and STAGE=agents (half an hour). KEEP=1 writes the figures and
# docs/compatibility.md.
test-ecosystem: .venv/.dev
	$(BIN)/python -m tests.ecosystem_wheel
	$(if $(STAGE)$(FOLDERS),,$(PASSED))

# Gyms on several machines, which are network namespaces: nodes that are lost or cut off, and the launcher's end. It needs
# root, and takes half an hour; six minutes more with Slurm (Debian: slurm-wlm, munge), which it starts privately, three
# with containers (podman, runc, debootstrap), and twenty with Ray. `tests/cluster/install.sh` fetches Ray and the schemas of Kubernetes.
test-cluster: .venv/.dev
	PYTHON=$(PYTHON) bash tests/cluster/install.sh
	NEMO_GYM_TEST_SEEDS=20 NEMO_GYM_TEST_ROLLOUTS=2000 $(BIN)/python -m pytest -n 0 -s -o faulthandler_timeout=0 tests/cluster/cluster_*.py
	NEMO_GYM_TEST_SEEDS=20 NEMO_GYM_TEST_ROLLOUTS=2000 .venvs/ray/bin/python -m pytest -n 0 -s -o faulthandler_timeout=0 tests/cluster/cluster_ray*.py tests/perf/test_ray_nodes.py
	$(PASSED)

# A slice of every heavy suite: its environment resolves, its tests import, a machine is lost during a hundred rollouts, and
# small runs are shown in a browser.
# `make test` plays thirty seeds of the simulation.
test-slices: slice-python slice-collect slice-cluster slice-train slice-vllm slice-browser slice-harnesses slice-foreign

slice-collect: .venv/.dev
	$(BIN)/python -m pytest --collect-only --quiet --quiet tests/chaos/chaos_*.py tests/cluster/cluster_*.py tests/train tests/vllm tests/browser tests/harnesses tests/foreign

# The rooms whose behaviour the version of Python can change most, on another version where there is one.
slice-python:
	@found=$$(PYENV_VERSION=$$(pyenv latest 3.13 2>/dev/null) python3.13 -c 'import sys; print(sys.executable)' 2>/dev/null); \
	if [ -z "$$found" ]; then echo "no Python 3.13 here"; \
	else $(MAKE) test-python PYTHON="$$found" TESTS="-q tests/rows tests/verify tests/config tests/processes tests/isolation tests/serving tests/episodes"; fi

slice-cluster: .venv/.dev
	$(BIN)/python -m pytest -n 0 -s tests/cluster/cluster_lost_node.py

slice-train slice-vllm slice-harnesses: slice-%: .venv/.dev
	bash tests/$*/install.sh resolve $(BIN)

# Whether the locks of foreign environments can be fetched as they are.
slice-foreign: .venv/.dev
	$(BIN)/python -m tests.foreign.install resolve

slice-browser: .venv/.dev
	bash tests/browser/slice.sh

test-vllm: .venv/.dev
	PYTHON=$(PYTHON) bash tests/vllm/run.sh
	$(PASSED)

# TRL's trainers on exports and rollouts, and what other trainers' loaders make of exports: four minutes to install.
test-train:
	PYTHON=$(PYTHON) bash tests/train/run.sh
	$(PASSED)

# The documentation as a site, in site/index.html. A warning, such as of a broken link, fails the build.
docs: .venv/.docs
	$(BIN)/zensical build --strict --clean

# Every page of the documentation as a script, with the engine stub: three minutes. `make test` runs a third of them.
test-docs: .venv/.dev
	NEMO_GYM_TEST_DOCS=1 $(BIN)/python -m pytest tests/docs tests/packaging/test_first_page.py -n 2

# The cards of our environments (audit.json in their folders): a sample must have no wrong verdict, as the cards. WHOLE=1 takes all tasks, KEEP=1 writes cards.
audit: .venv/.dev
	$(BIN)/python -m tests.audit.our_cards

# Every experiment tracker, with its real package and without a network: three minutes to install.
test-trackers:
	PYTHON=$(PYTHON) bash tests/rollouts/tracking/run.sh
	$(PASSED)

# The viewer's page and the site in a headless Chromium, which is the system's: half a minute to install Playwright.
test-browser: .venv/.dev .venv/.docs
	bash tests/browser/run.sh
	$(PASSED)

# The pictures of docs/viewer.md, made anew by that Chromium.
screenshots: .venv/.demo .venv/.dev
	bash tests/browser/install.sh
	PYTHONPATH=.venvs/browser:. $(BIN)/python -m tests.browser.screenshots

# The viewer on a million rows and 10 GB, in that Chromium, with its answers checked: about 15 minutes and 12 GB of disk in
# TMPDIR. SCALE=100 makes the runs a hundredth of their size, in a minute.
bench-viewer: .venv/.dev
	bash tests/browser/install.sh
	PYTHONPATH=.venvs/browser $(BIN)/python -m perf.viewer scale=$(or $(SCALE),1)

# Claude Code, Codex and other known agents as external agents, offline against the engine stub: ten minutes to install.
test-harnesses: .venv/.dev
	PYTHON=$(PYTHON) bash tests/harnesses/run.sh
	$(PASSED)

# The loader, linter and rewards of task folders against Harbor's own tools, in bubblewrap: ten minutes, five to install.
test-folders: .venv/.dev
	bash tests/folders/run.sh
	$(PASSED)

# Environments of other projects against their own loops: their packages in interpreters of their own, five minutes to install.
test-foreign: .venv/.dev
	bash tests/foreign/run.sh
	$(PASSED)

# The viewer's page, from its source in viewer/. It needs Node 20 or newer; the built page is part of the repository.
page:
	npm ci --prefix viewer --no-audit --no-fund && npm run --prefix viewer build

# They build their environment by themselves, as above.
example-grpo example-offline:
	PYTHON=$(PYTHON) bash tests/train/install.sh
	.venvs/train/bin/python examples/$(@:example-%=%)_trl.py

example-async:
	PYTHON=$(PYTHON) bash tests/train/install.sh
	.venvs/train/bin/python examples/async_grpo_trl.py

# All benchmarks, in about ten minutes. Results are kept by commit under perf/results and shown in docs/performance.md.
bench: .venv/.dev
	$(BIN)/python -m perf all +keep=true; status=$$?; $(BIN)/python -m perf.page && exit $$status

clean:
	rm -rf .venv .venvs site build dist *.egg-info

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3" >&2; exit 2; }
	$(PYTHON) -m venv .venv

# Bytecode is written here, where it is not written by itself: servers start twice as fast with it.
COMPILE := -m compileall -q nemo_gym resources_servers responses_api_agents responses_api_models environment_servers

.venv/.demo: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(CONSTRAINTS) -e '.[reasoning-gym]'
	$(BIN)/python $(COMPILE)
	@touch $@

.venv/.dev: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(CONSTRAINTS) -e '.[dev]'
	$(BIN)/python $(COMPILE)
	@touch $@ .venv/.demo

.venv/.docs: | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(CONSTRAINTS) 'zensical>=0.0.73'
	@touch $@
