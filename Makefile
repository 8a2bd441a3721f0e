PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test test-all lint docs clean

# Four agents learn to meet, with joint options and without: five teams each, two minutes on two cores.
demo: $(READY)
	$(BIN)/cooptions train meet --out runs/demo/with-options
	$(BIN)/cooptions train meet --method pqn-ns --out runs/demo/without
	$(BIN)/cooptions evaluate runs/demo/with-options --episodes 200 --gif
	$(BIN)/cooptions compare runs/demo/without runs/demo/with-options --out runs/demo

# Most of the time is compilation, which uses one core: two processes, each with whole files.
TESTS := $(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder

test: $(READY)
	$(TESTS)

test-all: $(READY)
	$(TESTS) -m "slow or not slow"

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

# Broken links and pages without a place in the navigation are errors. The site is in site/.
docs: .venv/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

.venv/.docs: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch .venv/.docs

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed: make PYTHON=...") if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(READY)

clean:
	rm -rf .venv runs site
