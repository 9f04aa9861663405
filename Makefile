# Everything a developer types. `make` alone prints this help; each target's help is the text after `##`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# More than the cores of a small machine: nodes, JVMs and timeouts leave a worker idle for much of its time.
WORKERS ?= 3
# Whole files, in the order of tests/support/order.py.
WHOLE_FILES := --dist loadfile --no-loadscope-reorder
PARALLEL := -n $(WORKERS) $(WHOLE_FILES)
# What the tests of Spark print while others run beside them.
SPARK_LOG := .cache/spark-tests.log
PURE := src/crabka/formats/*,src/crabka/records/*,src/crabka/protocol/*,src/crabka/metadata/*,src/crabka/kraft/*,src/crabka/controller/decisions/*
CODE := src tests tools $(wildcard bench)

# The stamp is named after the content of what decides the environment: the same content installs nothing twice.
STAMP := $(VENV)/.installed-$(shell cat requirements.lock pyproject.toml | cksum | cut -d' ' -f1)

.DEFAULT_GOAL := help
.PHONY: help setup run test test-spark test-interop soak lint typecheck format coverage bench bench-cluster bench-tier bench-moves bench-testkit bench-spark bench-partitions sim docs lock clean

help: ## Print this help
	@echo "Crabka: a Kafka-compatible broker in Python. Start with 'make run'."
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Build .venv with all extras and .venv/bin/crabka (once; about 800 MB of downloads)

$(STAMP):
	@$(PYTHON) tools/check_machine.py setup
	@echo "[1/3] virtual environment in $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "[2/3] locked dependencies, every file checked against its hash"
	@$(BIN)/python -m pip install --disable-pip-version-check --require-hashes --no-deps -r requirements.lock
	@echo "[3/3] Crabka itself"
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation -e .
	@$(BIN)/python -m compileall -q src
	@rm -f $(VENV)/.installed-*
	@touch $@
	@echo "ready: $(BIN)/crabka"

run: $(STAMP) ## Start a broker and show it at work (ONCE=1 stops after the tour; ARGS=... is passed on)
	@$(BIN)/python -m crabka.cli.story $(if $(ONCE),--once) $(ARGS)

test: lint ## Lint, types and all tests but the soak (ARGS=... is passed to pytest)
	$(BIN)/python -m pytest $(PARALLEL) --durations=10 tests --ignore=tests/interop --ignore=tests/spark $(ARGS)
	@mkdir -p $(dir $(SPARK_LOG)); \
	echo "beside the tests of other clients run those of Spark; what they print comes at the end"; \
	$(MAKE) --no-print-directory test-spark > $(SPARK_LOG) 2>&1 & spark=$$!; \
	trap 'kill $$spark' INT TERM; \
	$(MAKE) --no-print-directory test-interop; interop=$$?; \
	wait $$spark; spark=$$?; cat $(SPARK_LOG); exit $$((interop | spark))

test-spark: $(STAMP) ## Only the tests of Spark
	$(BIN)/python -m pytest --durations=10 tests/spark $(ARGS)

# Apart from the others: foreign clients leave threads and sockets, which the leak check would lay at others' doors.
test-interop: $(STAMP) ## Only the tests with other clients and with the tools of Apache Kafka
	$(BIN)/python -m pytest -n 2 $(WHOLE_FILES) --durations=10 tests/interop $(ARGS)

soak: $(STAMP) ## The tests with large numbers: more crashes, frames, seeds and connections
	CRABKA_SOAK=1 $(BIN)/python -m pytest -v --timeout=7200 tests --ignore=tests/interop $(ARGS)
	CRABKA_SOAK=1 $(BIN)/python -m pytest -v --timeout=7200 tests/interop $(ARGS)

lint: $(STAMP) ## ruff, formatting, mypy --strict and the import contracts
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy $(CODE)
	$(BIN)/lint-imports

typecheck: $(STAMP) ## Only mypy --strict
	$(BIN)/mypy $(CODE)

format: $(STAMP) ## Format the code and apply ruff's safe fixes
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

coverage: $(STAMP) ## Line coverage: at least 95 % of the pure packages, 85 % of everything
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest $(PARALLEL) tests --ignore=tests/interop --ignore=tests/spark $(ARGS)
	$(BIN)/coverage run -m pytest tests/spark $(ARGS)
	$(BIN)/coverage run -m pytest $(PARALLEL) tests/interop $(ARGS)
	$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report --fail-under=85; all=$$?; \
	echo "pure packages:"; $(BIN)/coverage report --fail-under=95 --include='$(PURE)' && exit $$all

bench: $(STAMP) ## Measure against Apache Kafka 4.3.0 (needs Java 17 and Maven)
	@$(BIN)/python tools/check_machine.py java
	$(BIN)/python -m compileall -q src
	$(BIN)/python -m bench $(ARGS)

bench-cluster: $(STAMP) ## The same for clusters of three nodes: failover, replication, many partitions
	@$(BIN)/python tools/check_machine.py java
	$(BIN)/python -m compileall -q src
	$(BIN)/python -m bench.cluster $(ARGS)

bench-tier: $(STAMP) ## The same for tiered storage: copies, reads and metadata (needs Go for an S3 server, too)
	@$(BIN)/python tools/check_machine.py java
	$(BIN)/python -m compileall -q src
	$(BIN)/python -m bench.tier $(ARGS)

bench-moves: $(STAMP) ## The same for moves between log dirs, with `cp` beside them
	@$(BIN)/python tools/check_machine.py java
	$(BIN)/python -m compileall -q src
	$(BIN)/python -m bench.moves $(ARGS)

bench-testkit: $(STAMP) ## The same for suites of small tests: a broker per run, per file, per test
	@$(BIN)/python tools/check_machine.py java
	$(BIN)/python -m compileall -q src
	$(BIN)/python -m bench.testkit $(ARGS)

bench-spark: $(STAMP) ## Crabka's Spark source on a tier beside Spark's own Kafka source
	@$(BIN)/python tools/check_machine.py java
	$(BIN)/python -m compileall -q src
	$(BIN)/python -m bench.spark $(ARGS)

bench-partitions: $(STAMP) ## One node with 50,000 partitions: create, write, stop, start, kill, delete
	@$(BIN)/python tools/check_machine.py java
	$(BIN)/python -m compileall -q src
	$(BIN)/python -m bench.partitions $(ARGS)

sim: $(STAMP) ## Run the simulation tests (CRABKA_SEED=... replays one); [CLUSTER_]SEEDS=... searches the quorum (clusters), [CLUSTER_]SEED=... tells one
ifneq ($(SEED)$(SEEDS),)
	$(BIN)/python -m tests.support.kraft_sim $(if $(SEED),--seed $(SEED),--seeds $(SEEDS)) $(ARGS)
else ifneq ($(CLUSTER_SEED)$(CLUSTER_SEEDS),)
	$(BIN)/python -m tests.support.cluster_sim $(if $(CLUSTER_SEED),--seed $(CLUSTER_SEED) --trace,--seeds $(CLUSTER_SEEDS)) $(ARGS)
else
	$(BIN)/python -m pytest -v tests/sim $(ARGS)
endif

docs: $(STAMP) ## Regenerate the documents that are made from the code
	$(BIN)/python tools/generate_docs.py

lock: $(STAMP) ## Resolve the dependencies again and rewrite requirements.lock
	$(BIN)/uv pip compile pyproject.toml --output-file requirements.lock --quiet --upgrade --universal \
	  --python-version 3.11 --all-extras --generate-hashes --no-header --no-annotate

clean: ## Remove the environment, the caches and the data of `make run`
	rm -rf $(VENV) build dist crabka-data crabka-tier crabka-lake .cache .coverage .coverage.* htmlcov
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis src/crabka.egg-info
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
