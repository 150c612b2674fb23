# Two commands: `make demo` shows what embedbench does, `make test` says whether it works here.
# Each makes .venv and installs what it needs, the first time, in the versions of constraints.txt,
# which are those that CI tests; CONSTRAINTS= takes the newest of everything. PYTHON=python3.12 picks
# another Python, TORCH_INDEX=URL another index for torch, such as PyTorch's own for machines without
# a GPU.
#
# Constraints and no lock file: pip reads them, which everybody has; they say nothing of where a
# package comes from, so that TORCH_INDEX, a mirror or another platform still works; and they bind
# only what is installed.
PYTHON      ?= python3
TORCH_INDEX ?=
CONSTRAINTS ?= constraints.txt
VENV        := .venv
BIN         := $(VENV)/bin

.PHONY: demo test test-rest test-long test-engines fuzz mutants lint types wheel-check readme-check docs \
  release try-newest try-lowest try-extras clean

# setuptools warns at length of folders that an editable installation is meant to find.
INSTALL := PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet$(CONSTRAINTS:%= --constraint %)

# A stamp is newer than pyproject.toml and the constraints exactly when the environment holds what
# they ask for: .package for the package alone, .installed for the tools of development, too.
$(VENV)/.package: pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "embedbench needs Python 3.11 or newer, this is %d.%d; name another one: make PYTHON=python3.12" % sys.version_info[:2])'
	@echo "installing into $(VENV) (a few minutes, the first time only)" >&2
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --upgrade pip
	$(if $(TORCH_INDEX),$(INSTALL) --index-url $(TORCH_INDEX) torch torchvision)
	$(INSTALL) -e .
	@touch $@

$(VENV)/.installed: $(VENV)/.package
	$(INSTALL) -e ".[dev]"
	@touch $@

demo: $(VENV)/.package
	$(BIN)/embedbench demo

test: $(VENV)/.installed
	$(BIN)/python -m pytest -n auto --dist worksteal

# What `make test` has left out, or skipped: the whole conformance suite, long tables of cases.
test-rest: $(VENV)/.installed
	THOROUGH=1 $(BIN)/python -m pytest -n auto --dist worksteal --rest --known-skips

# What is too slow for every change: all class orders of ImageNet, Ray's clusters, …
test-long: $(VENV)/.installed
	$(BIN)/python -m pytest -m long

# Those of them that .ci/run runs: Ray and SLURM's jobs on this machine.
test-engines: $(VENV)/.installed
	$(BIN)/python -m pytest -m long tests/engines --ignore tests/engines/test_slurm_engine_one_node.py

# Thousands of hostile files, directories, sources, command lines and kills; about twenty minutes.
fuzz: $(VENV)/.installed
	$(BIN)/python -m pytest tests/hostile -m "fuzz or not fuzz" -n auto --dist worksteal

# Forty random mutants of the source, and which of them no test notices; SEED=2 draws others.
SEED ?= 1
mutants: $(VENV)/.installed
	$(BIN)/python tools/mutate.py --count 40 --seed $(SEED) --jobs 2

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed
	$(BIN)/mypy

# Builds the wheel, installs it into an empty environment, imports every module from an empty
# directory.
wheel-check: $(VENV)/.installed
	$(BIN)/python .ci/wheel_check.py

# Leaves a release's files in dist/: sdist and wheel, checked, tried in an empty environment with
# the demo, and their SHA-256.
release: $(VENV)/.installed
	$(BIN)/python .ci/wheel_check.py dist

# Runs every command and every line of Python in README.md and docs/ that says no needs
readme-check: $(VENV)/.installed
	$(BIN)/python .ci/readme_check.py

$(VENV)/.docs: $(VENV)/.installed
	$(INSTALL) -e ".[docs]"
	@touch $@

# Builds the site into docs/_build/html, without network.
docs: $(VENV)/.docs
	$(BIN)/python .ci/docs.py

# Other versions than those of constraints.txt, each in an environment of its own: run these when
# dependencies change and before a release; see tools/try_versions.py.
$(VENV)/.uv: $(VENV)/.installed
	$(INSTALL) uv
	@touch $@

try-newest try-lowest try-extras: try-%: $(VENV)/.uv
	$(BIN)/python tools/try_versions.py $*

clean:
	rm -rf $(VENV) build dist docs/_build docs/reference/*/ *.egg-info
