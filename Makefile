# segmeter: `make demo` first, then `make test`. Everything is set up on the way.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Folder of weights for the demo: developers keep theirs next to the clone.
WEIGHTS ?= $(or $(SEGMETER_WEIGHTS),$(wildcard ../shared/weights))
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check
# One more than processors: some tests wait for servers and browsers.
WORKERS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN); echo $$((n < 8 ? n + 1 : 8)))
MINUTES ?= 5
WHERE ?= disk,memory,s3,copies,study

# uv unpacks and compiles packages on all cores, and takes the local wheels that pip is set up with.
INSTALL = UV_FIND_LINKS="$${PIP_FIND_LINKS:-$$($(PIP) config get global.find-links 2>/dev/null)}" \
  $(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode -c constraints.txt

# What an installation depends on; new Python files are seen without one.
BUILD := pyproject.toml constraints.txt CMakeLists.txt $(wildcard src/segmeter/kernels/*.cpp src/segmeter/kernels/*.h)

# Those that need minutes at most; what needs weights says so and ends where there are none.
# The other scripts in perf/ take hours, a GPU or a run to look at: each says how to call it.
PERF := import_time clicks boundaries partitions similarity groups prior records coco_index answers session attack

# One thread a process: two tests run side by side, and figures mean one core.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

# Compiled modules are kept, or each process of the tests compiles all of them again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo test test-long check docs perf torture published release-check clean fuzz

help:
	@echo "make demo       set up, run two models on the images that ship with segmeter, write a report"
	@echo "make test       set up, then style and tests"
	@echo "make test-long  the other tests: types, the site, browsers, a Ray cluster, full-size networks"
	@echo "make check      style and types only"
	@echo "make docs       the documentation, in site/"
	@echo "make perf       speed: ratios measured in one run"
	@echo "make torture    kill runs at random moments for MINUTES=5, compare; WHERE=$(WHERE)"
	@echo "make fuzz       mutated files for every reader, minutes (INPUTS=20000 SEED=1 say how many, which)"
	@echo "make published  the full tables on real data (hours; SEGMETER_SHARED holds data/ and weights/)"
	@echo "make release-check  build sdist and wheel, install each without a compiler, run the demo there"
	@echo "make clean      remove what make made"

demo: $(VENV)/.use
	@$(BIN)/segmeter demo $(WEIGHTS:%=--weights %)
	@echo "next: source $(BIN)/activate, then segmeter doctor $(WEIGHTS:%=--weights %)"

PYTEST = $(ONE_THREAD) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -rsfE

test: $(VENV)/.develop
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(PYTEST) -m "not long"

# Types are checked by one of them.
test-long: $(VENV)/.develop
	@$(PYTEST) -m long

check: $(VENV)/.develop
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy

docs: $(VENV)/.develop
	@$(BIN)/python docs/hooks.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir site
	@echo "documentation in site/index.html"

perf: $(VENV)/.develop
	@for name in $(PERF); do echo "== perf/$$name.py"; $(ONE_THREAD) $(BIN)/python perf/$$name.py || exit 1; done

torture: $(VENV)/.develop
	@$(ONE_THREAD) $(BIN)/python perf/torture.py --minutes $(MINUTES) --where $(WHERE)

fuzz: $(VENV)/.develop
	@$(ONE_THREAD) $(BIN)/python -m tests.fuzz --inputs $(or $(INPUTS),20000) $(if $(SEED),--seed $(SEED))

published: $(VENV)/.develop
	@$(BIN)/python perf/published.py

release-check: $(VENV)/.develop
	@BIN=$(BIN) bash perf/release_check.sh

clean:
	rm -rf $(VENV) build site .mypy_cache .ruff_cache .pytest_cache

# The two installations: for use, and for work on segmeter itself (which serves both).
$(VENV)/.use: EXTRAS := models
$(VENV)/.develop: EXTRAS := models,volumes,detectors,study,ray,dev,docs
$(VENV)/.use $(VENV)/.develop: $(BUILD) | $(VENV)/.python
	@echo "installing segmeter[$(EXTRAS)]; the first time takes a few minutes"
	@$(PIP) install -c constraints.txt uv
	@$(INSTALL) cmake ninja nanobind scikit-build-core
	@$(INSTALL) --no-build-isolation -e ".[$(EXTRAS)]"
	@touch $(VENV)/.use $@

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "segmeter needs Python 3.11 or newer; say which with: make PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "$(PYTHON) has no venv; on Debian: apt-get install python3-venv"; exit 1; }
	@touch $@
