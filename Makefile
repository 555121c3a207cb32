# Every target sets up what it needs in .venv; only Python 3.11+, Java and make are expected.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SEEDS ?= 0-300

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-kills up test test-long lint bench bench-storage bench-replication bench-spark test-clients test-groups test-transactions test-groups-kill test-txn-kill test-spark-kill test-pipeline-kill test-archive-kill test-kill test-failover test-roll test-drain test-sim test-cluster-sim test-planted test-fuzz clean test-storm test-deploy chaos chaos-no-faults chaos-planted

help: ## Show what can be done here
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 22

setup: $(STAMP) ## Install Barnabas and its development tools into .venv

$(STAMP): pyproject.toml setup.py $(wildcard src/barnabas/wire/records/*.pyx src/barnabas/wire/records/*.pxi)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,spark,charts,pipelines,cluster]'
	@touch $@

demo: $(STAMP) ## A broker, a stream of orders, a pipeline on Spark with a window, a join and dead letters; the result as a table and a chart
	@$(BIN)/python -m examples.orders.demo --picture demo.png

demo-kills: $(STAMP) ## A broker, two client libraries, groups and transactions, and kills in the middle of it
	@$(BIN)/python -m barnabas.cli.demo

up: $(STAMP) ## Start a broker on 127.0.0.1:9092 that stays up (data in ./data)
	@$(BIN)/barnabas up --data data

test: $(STAMP) lint ## Lint and run every test that needs only Python, Java and make
	@$(BIN)/pytest -n 3

test-long: $(STAMP) ## The tests that take minutes each: archives and replays killed in a loop
	@$(BIN)/pytest -m slow tests

lint: $(STAMP) ## ruff, mypy --strict and the import contracts
	@$(BIN)/ruff check src tests examples
	@$(BIN)/ruff format --check src tests examples
	@$(BIN)/mypy
	@$(BIN)/lint-imports

test-clients: $(STAMP) ## kcat, kafkajs, Java and Go clients, groups of them, PostgreSQL, Kafka's dump tool, answers compared with a real Kafka
	@command -v kcat >/dev/null || apt-get install -y -qq kcat || echo "no kcat: its suite is skipped"
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || apt-get install -y -qq postgresql || echo "no PostgreSQL: its suite is skipped"
	@$(BIN)/pytest -m clients -rs tests/compat tests/coordinator tests/client tests/failover
	@$(BIN)/pytest -m clients -rs tests/spark

test-storm: $(STAMP) ## Apache Storm's spout and bolt in a topology that reads and writes here, also while the broker is killed (needs Maven)
	@$(BIN)/python -m tests.compat.clients.storm.run --out bench/results/storm.txt

test-deploy: $(STAMP) ## The samples of docs/deploy read by systemd, Compose, Kubernetes and BuildKit, and played on machines of their own (needs Go, root)
	@command -v systemd-analyze >/dev/null || apt-get install -y -qq systemd || echo "no systemd-analyze: its check is skipped"
	@$(BIN)/python -m tests.deploy.run --out bench/results/deploy.txt

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

test-pipeline-kill: $(STAMP) ## Kill a pipeline's driver KILLS=20 times, the command and the broker: topic, table and dead letters must be exact (goes on where it was stopped)
	@$(BIN)/python tests/chaos/pipelines/run.py --kills $(or $(KILLS),20) --out bench/results/pipeline-kills.txt

test-archive-kill: $(STAMP) ## Archive 2 million records with KILLS=12 kills while retention deletes, ask with SQL, replay: the copy must be exact (goes on where it was stopped)
	@$(BIN)/python tests/chaos/pipelines/archive_run.py --kills $(or $(KILLS),12) --out bench/results/archive-kills.txt

test-sim: $(STAMP) ## Simulated power loss under the log, by seed (SEEDS=0-300); a failing seed replays
	@$(BIN)/python tests/sim/crash_run.py --seeds $(SEEDS) --out bench/results/sim-crashes.txt

test-cluster-sim: $(STAMP) ## Simulated clusters under faults, by seed (SEEDS=0-2000); goes on where it was stopped, a failing seed is told with its fewest faults
	@$(BIN)/python -m tests.sim.cluster_run --seeds $(if $(filter file,$(origin SEEDS)),0-2000,$(SEEDS)) --out bench/results/sim-cluster.txt

test-planted: $(STAMP) ## Which simulated cluster finds each planted mistake (SEEDS=0-300): a mistake that none finds is a hole in the checks
	@$(BIN)/python -m tests.sim.planted_run --seeds $(SEEDS) --out bench/results/sim-planted.txt

bench: $(STAMP) ## Compare the broker with the limit server; results go to bench/results
	@$(BIN)/barnabas bench all --results bench/results

bench-storage: $(STAMP) ## Speed with 20 GB stored, starts, 10,000 partitions, compaction of 5 GB under load (60 GB of disk, half an hour)
	@$(BIN)/barnabas bench compaction --results bench/results
	@$(BIN)/barnabas bench storage --results bench/results

bench-replication: $(STAMP) ## What three replicas cost, next to one and to a broker alone (needs Java; some minutes)
	@$(BIN)/barnabas bench replication --results bench/results

bench-spark: $(STAMP) ## Compare our Spark connector with Spark's own: rows a second and trigger times (ten minutes)
	@$(BIN)/python -m bench.spark.run --out bench/results/spark.txt

test-kill: $(STAMP) ## Kill a broker in mid-load, KILLS=30 times; check what it had acknowledged
	@$(BIN)/python tests/chaos/kill_run.py --kills $(or $(KILLS),30) --out bench/results/kill-9.txt

test-failover: $(STAMP) ## Kill leaders of a cluster KILLS=10 times, in two ways, while three client libraries write and read; prints how long writes stood still
	@$(BIN)/python tests/failover/run.py --kills $(or $(KILLS),10) --out bench/results/failover.txt

test-roll: $(STAMP) ## Restart a cluster ROLLS=10 times, broker by broker, under load: no failed delivery, no lost offset, exact transactions
	@$(BIN)/python tests/chaos/roll_run.py --rolls $(or $(ROLLS),10) --out bench/results/rolls.txt

test-drain: $(STAMP) ## Add a broker to a running cluster, give it its share, empty and remove another, under load
	@$(BIN)/python tests/chaos/drain_run.py --out bench/results/drain.txt

chaos: $(STAMP) ## Break a real cluster for MINUTES=60 (kills, pauses, partitions, quorum losses, full disks), in parts; goes on where it was stopped, FRESH=1 begins anew
	@$(BIN)/python -m tests.chaos.cluster.run --minutes $(or $(MINUTES),60) --part $(or $(PART),10) --seed $(or $(SEED),1) $(if $(FRESH),--fresh) --out bench/results/chaos.txt

chaos-no-faults: $(STAMP) ## The same cluster and clients with nothing broken, until RECORDS=1000000 are acknowledged
	@$(BIN)/python -m tests.chaos.cluster.run --no-faults --records $(or $(RECORDS),1000000) $(if $(FRESH),--fresh) --out bench/results/chaos-no-faults.txt

chaos-planted: $(STAMP) ## Real brokers with a planted mistake each: the rig must find it (needs root for namespaces, or takes a proxy)
	@$(BIN)/python -m tests.chaos.cluster.planted --out bench/results/chaos-planted.txt

test-fuzz: $(STAMP) ## Throw FRAMES=200000 mutated requests at a broker beside real traffic
	@$(BIN)/python tests/hostile/fuzz_run.py --frames $(or $(FRAMES),200000) --out bench/results/fuzz-$(or $(FRAMES),200000).txt

clean: ## Remove what the targets above made
	rm -rf $(VENV) data .mypy_cache .ruff_cache .pytest_cache .hypothesis build
