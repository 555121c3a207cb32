# Every target sets up what it needs in .venv; only Python 3.11+, Java and make are expected.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SEEDS ?= 0-300

.DEFAULT_GOAL := help
.PHONY: help setup demo up test lint bench bench-storage bench-spark test-clients test-groups test-transactions test-groups-kill test-txn-kill test-spark-kill test-kill test-sim test-fuzz clean

help: ## Show what can be done here
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 18

setup: $(STAMP) ## Install Barnabas and its development tools into .venv

$(STAMP): pyproject.toml setup.py $(wildcard src/barnabas/wire/records/*.pyx src/barnabas/wire/records/*.pxi)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,spark]'
	@touch $@

demo: $(STAMP) ## Start a broker, stream events through it with two client libraries and a group, show the result
	@$(BIN)/python -m barnabas.cli.demo

up: $(STAMP) ## Start a broker on 127.0.0.1:9092 that stays up (data in ./data)
	@$(BIN)/barnabas up --data data

test: $(STAMP) lint ## Lint and run every test that needs only Python, Java and make
	@$(BIN)/pytest --ignore tests/spark
	@$(BIN)/pytest tests/spark # A process of its own: py4j's callbacks end where descriptors pass 1023.

lint: $(STAMP) ## ruff, mypy --strict and the import contracts
	@$(BIN)/ruff check src tests
	@$(BIN)/ruff format --check src tests
	@$(BIN)/mypy
	@$(BIN)/lint-imports

test-clients: $(STAMP) ## kcat, kafkajs, Java and Go clients, groups of them, PostgreSQL, Kafka's dump tool, answers compared with a real Kafka
	@command -v kcat >/dev/null || apt-get install -y -qq kcat || echo "no kcat: its suite is skipped"
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || apt-get install -y -qq postgresql || echo "no PostgreSQL: its suite is skipped"
	@$(BIN)/pytest -m clients -rs tests/compat tests/coordinator tests/client

test-groups: $(STAMP) ## The same group scenarios to a real Kafka and to Barnabas; lists every difference and its reason
	@$(BIN)/python -m tests.compat.clients.group_compare --out bench/results/group-differences.txt

test-transactions: $(STAMP) ## The same transaction scenarios to a real Kafka and to Barnabas; lists every difference and its reason
	@$(BIN)/python -m tests.compat.clients.group_compare transactions --out bench/results/transaction-differences.txt

test-groups-kill: $(STAMP) ## Restart a broker (clean and kill -9) in mid-rebalance and mid-commit, RESTARTS=30 times
	@$(BIN)/python tests/chaos/group_kill_run.py --restarts $(or $(RESTARTS),30) --out bench/results/group-restarts.txt

test-txn-kill: $(STAMP) ## Kill exactly-once copiers KILLS=100 times and their broker 30 times: the copy must be exact
	@$(BIN)/python tests/chaos/txn_kill_run.py --kills $(or $(KILLS),100) --out bench/results/exactly-once-kills.txt

test-spark-kill: $(STAMP) ## Kill drivers KILLS=20 times, executors, the broker, shuffle files of an exactly-once Spark job: the output must be exact (half an hour; goes on where it was stopped)
	@$(BIN)/python tests/chaos/spark/run.py --kills $(or $(KILLS),20) --out bench/results/spark-kills.txt

test-sim: $(STAMP) ## Simulated power loss under the log, by seed (SEEDS=0-300); a failing seed replays
	@$(BIN)/python tests/sim/crash_run.py --seeds $(SEEDS) --out bench/results/sim-crashes.txt

bench: $(STAMP) ## Compare the broker with the limit server; results go to bench/results
	@$(BIN)/barnabas bench all --results bench/results

bench-storage: $(STAMP) ## Speed with 20 GB stored, starts, 10,000 partitions, compaction of 5 GB under load (60 GB of disk, half an hour)
	@$(BIN)/barnabas bench compaction --results bench/results
	@$(BIN)/barnabas bench storage --results bench/results

bench-spark: $(STAMP) ## Compare our Spark connector with Spark's own: rows a second and trigger times (ten minutes)
	@$(BIN)/python -m bench.spark.run --out bench/results/spark.txt

test-kill: $(STAMP) ## Kill a broker in mid-load, KILLS=30 times; check what it had acknowledged
	@$(BIN)/python tests/chaos/kill_run.py --kills $(or $(KILLS),30) --out bench/results/kill-9.txt

test-fuzz: $(STAMP) ## Throw FRAMES=200000 mutated requests at a broker beside real traffic
	@$(BIN)/python tests/hostile/fuzz_run.py --frames $(or $(FRAMES),200000) --out bench/results/fuzz-$(or $(FRAMES),200000).txt

clean: ## Remove what the targets above made
	rm -rf $(VENV) data .mypy_cache .ruff_cache .pytest_cache .hypothesis build
