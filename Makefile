# segmeter: `make demo`, then `make test`. Each sets up what it needs.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Folder of weights for the demo; by default `shared/weights` next to the clone, if it exists.
WEIGHTS ?= $(or $(SEGMETER_WEIGHTS),$(wildcard ../shared/weights))
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check
# One worker more than there are cores, because some tests wait for servers and browsers.
WORKERS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN); echo $$((n < 8 ? n + 1 : 8)))
MINUTES ?= 5
WHERE ?= disk,memory,s3,copies,study

# uv installs packages on all cores; it uses the local wheels that pip is configured with.
INSTALL = UV_FIND_LINKS="$${PIP_FIND_LINKS:-$$($(PIP) config get global.find-links 2>/dev/null)}" \
  $(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode -c constraints.txt

# If one of these files changes, the package is installed again; Python files need no new installation.
BUILD := pyproject.toml constraints.txt CMakeLists.txt $(wildcard src/segmeter/kernels/*.cpp src/segmeter/kernels/*.h)

# Scripts that take minutes at most. Those that need weights print a message and stop if there are none.
# The other scripts in perf/ take hours, a GPU or an existing run; their first lines show how to call them.
PERF := import_time clicks boundaries partitions similarity groups prior records coco_index answers session attack

# One thread per process, so that parallel tests do not compete and timings refer to one core.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

# Keep compiled Python files; otherwise each test process compiles all of them again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo test test-long check docs perf torture published release-check clean fuzz

help:
	@echo "make demo       set up, run two models on the images that ship with segmeter, write a report"
	@echo "make test       set up, then run linting and tests"
	@echo "make test-long  run type checks and the long tests: site, browsers, Ray cluster, full-size networks"
	@echo "make check      run linting and type checks only"
	@echo "make docs       build the documentation in site/"
	@echo "make perf       measure speed as ratios to reference implementations"
	@echo "make torture    kill runs at random moments and compare their rows (MINUTES=5 WHERE=$(WHERE))"
	@echo "make fuzz       test every file reader with mutated files, some minutes (INPUTS=20000 SEED=1)"
	@echo "make published  compute the full tables on real data (hours; SEGMETER_SHARED has data/ and weights/)"
	@echo "make release-check  build sdist and wheel, install each without a compiler, run the demo"
	@echo "make clean      remove everything that make created"

demo: $(VENV)/.use
	@$(BIN)/segmeter demo $(WEIGHTS:%=--weights %)
	@echo "next: source $(BIN)/activate, then segmeter doctor $(WEIGHTS:%=--weights %)"

PYTEST = $(ONE_THREAD) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -rsfE

test: $(VENV)/.develop
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(PYTEST) -m "not long"

# Includes the type checks (tests/test_types.py).
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

# Two installations: .use to run segmeter, .develop to work on it; .develop includes .use.
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
	  { echo "segmeter needs Python 3.11 or newer; name it, for example: make demo PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "$(PYTHON) has no venv; on Debian: apt-get install python3-venv"; exit 1; }
	@touch $@
