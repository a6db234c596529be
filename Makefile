# Everything a newcomer needs: `make demo` and `make test`. `make help` lists the rest.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
HUDI_VENV := .venv-hudi
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
export PYSPARK_DRIVER_PYTHON := $(CURDIR)/$(BIN)/python
export SPARK_LOCAL_IP := 127.0.0.1
# Containers often forbid Python to keep what it compiled; the many processes that tests start need it.
export PYTHONDONTWRITEBYTECODE :=
PYTEST := $(BIN)/python -m pytest --durations=20 --durations-min=1
# Two workers; one that has nothing left takes tests from the other.
TWO := -n 2 --dist worksteal
# Where a file shares tables or servers between its tests; in our order, the longest first.
FILES := -n 2 --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help setup java demo check test units faults fuzz spark cluster interop soak bench docs dist lock clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-9s %s\n", $$1, $$2}'

setup: $(VENV)/.ready ## make .venv with everything the project needs

$(VENV)/.ready: requirements/dev.txt pyproject.toml
	@scripts/find-python "$(PYTHON)" > /dev/null
	"$$(scripts/find-python "$(PYTHON)")" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(BIN)/python -m lakebed.spark.daemon compile  # the kernels, once
	@touch $@

java:
	@scripts/check-java

demo: java setup ## what Lakebed is: layers, lookups, the past, changes, compaction; then Spark
	@$(BIN)/python examples/demo.py

check: setup ## format, lint, types, layers, spelling
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell

test: check units faults fuzz spark ## everything but interop and soak

units: setup ## unit, property, golden and meta tests
	$(PYTEST) $(TWO) tests/unit tests/property tests/golden tests/meta --doctest-modules src/lakebed

faults: setup ## a crash at every storage operation, schedules, processes, kills
	$(PYTEST) $(TWO) tests/fault tests/soak

fuzz: setup ## thousands of damaged files, read in processes of their own
	$(PYTEST) --timeout 1800 tests/fuzz

spark: java setup ## local[2], a standalone cluster, Spark Connect
	$(PYTEST) $(FILES) -p no:randomly tests/spark

interop: java setup $(HUDI_VENV)/.ready ## Apache Hudi and hudi-rs as the other readers and writers
	$(PYTEST) $(FILES) -p no:randomly -m interop tests/interop

$(HUDI_VENV)/.ready: requirements/hudi.txt
	"$$(scripts/find-python "$(PYTHON)")" -m venv $(HUDI_VENV)
	$(HUDI_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/hudi.txt
	$(HUDI_VENV)/bin/python tests/interop/peer/hudi_session.py  # fetches Hudi's bundle once
	@touch $@

soak: java setup ## the long runs
	LAKEBED_HYPOTHESIS=soak LAKEBED_SOAK=1 LAKEBED_SCHEDULES=20000 LAKEBED_MUTATED=20000 $(PYTEST) $(TWO) --timeout 7200 tests/property tests/fault tests/soak tests/fuzz

bench: java setup $(HUDI_VENV)/.ready ## measure against Apache Hudi; figures go to docs/benchmarks.md
	$(BIN)/python bench/run.py

docs: setup ## build the documentation
	$(BIN)/python scripts/options_page.py
	$(BIN)/python scripts/storage_page.py
	$(BIN)/python scripts/figures.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

dist: setup ## build the wheel into dist/
	@rm -rf build  # what an earlier build left there would come along
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .

lock: ## settle requirements/*.txt anew (needs pip-tools in the environment)
	pip-compile --quiet --generate-hashes --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-strip-extras \
	  --no-header --all-build-deps --extra spark --extra sql --extra delta --extra polars --extra duckdb --extra dev --extra docs --allow-unsafe -c requirements/constraints.txt -o requirements/dev.txt pyproject.toml
	pip-compile --quiet --generate-hashes --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-strip-extras \
	  --no-header --allow-unsafe -o requirements/hudi.txt requirements/hudi.in

clean: ## remove what the targets made
	rm -rf $(VENV) $(HUDI_VENV) build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
