# The commands of this repository. Each command sets up its requirements once.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
BROKER := .venv/.broker
HDFS := .venv/.hdfs
S3 := .venv/.s3
BENCH := .venv/.bench
CLASSES := .venv/.classes
CONNECT := .venv/.connect
DATABRICKS := .venv/.databricks
DOCS := .venv/.docs
NOTEBOOKS := .venv/.notebooks
POSTGRES := .venv/.postgres
READERS := .venv/.readers

BUILD ?= .venv-build/bin
DEMO := .demo
SEEDS ?= 4
KILLS ?= 50
MINUTES ?= 5
RATE ?= 2000
LIVE ?= 50000
GROUPS ?= 512
T ?= dev
IN_PARALLEL := --dist loadfile --no-loadscope-reorder
PYTEST := $(BIN)/python -m pytest -q
DOCTESTS := $(addprefix lib/sessionization/,core durations.py event_map/field_path.py ops/account_search.py \
  settings/section.py sql_text.py)
# The notebooks' tests need packages that `make setup` does not install.
UNIT := $(PYTEST) tests --ignore=tests/notebooks -m "not spark and not job and not long" -n 2 $(IN_PARALLEL)
NOTEBOOK_TESTS := $(PYTEST) tests/notebooks
AS_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)

.PHONY: help setup deploy demo demo-kafka demo-serving sql players notebooks notebook-data pictures test \
  test-notebooks test-faults soak bench bench-quick watched docs docs-tour wheel release release-check lint check \
  format lock clean

help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(READY) ## create a virtual environment from the lock; install Java if missing; fetch Spark's jars

$(READY): pyproject.toml requirements.lock requirements-build.lock requirements-java.lock \
  lib/sessionization_laptop/engine/jars.lock
	@echo "setting up .venv (once; about a minute)"
	@$(PYTHON) -m venv --clear .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-build.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-build-isolation --require-hashes -r requirements.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-build-isolation --no-deps --editable .
	@$(BIN)/python -m sessionization_laptop.engine.java 2> /dev/null || \
	  { $(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements-java.lock && \
	    $(BIN)/python -m sessionization_laptop.engine.java; }
	@$(BIN)/python -m sessionization_laptop.engine.jars spark
	@touch $@

$(BROKER): $(READY) lib/sessionization_laptop/engine/jars.lock
	@echo "fetching a Kafka broker (once; 44 MB)"
	@$(BIN)/python -m sessionization_laptop.engine.jars broker
	@touch $@

$(HDFS): $(READY) lib/sessionization_laptop/engine/jars.lock
	@echo "fetching HDFS (once; 56 MB)"
	@$(BIN)/python -m sessionization_laptop.engine.jars hdfs
	@touch $@

# Each has an environment of its own, because its packages do not go with the others' versions.
$(S3): WHAT := Hadoop's client of S3 and a server with its interface (once; 50 MB)
$(DOCS): WHAT := the tools of the documentation's site (once; 40 MB)
$(S3) $(DOCS): .venv/.%: $(READY) requirements-%.lock lib/sessionization_laptop/engine/jars.lock
	@echo "fetching $(WHAT)"
	@$(BIN)/python -m sessionization_laptop.engine.jars $*
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv/$*
	@$(BIN)/uv pip install --quiet --python .venv/$*/bin/python --require-hashes -r requirements-$*.lock
	@touch $@

$(BENCH): $(READY) requirements-bench.lock
	@echo "fetching MLflow (once)"
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-build-isolation --require-hashes -r requirements-bench.lock
	@touch $@

$(NOTEBOOKS): $(READY) requirements-notebooks.lock
	@echo "fetching JupyterLab, MLflow, Matplotlib and the notebooks' test tools (once)"
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-build-isolation --require-hashes \
	  -r requirements-notebooks.lock
	@touch $@

# The client has no JVM of its own; the tests start a server beside it.
$(CONNECT): $(NOTEBOOKS) requirements-connect.lock
	@echo "fetching the client of Spark Connect (once)"
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-build-isolation --require-hashes \
	  -r requirements-connect.lock
	@touch $@

# Databricks Runtime 19 has Python 3.12; without one, its packages run with the Python of .venv. PySpark is built with
# packages that the runtime has in other versions, and that do not stay.
$(DATABRICKS): $(READY) requirements-databricks.lock requirements-build.lock
	@echo "fetching the packages of Databricks Runtime 19 (once; a minute)"
	@python=$$(PYENV_VERSION=3.12 python3.12 -c "import sys; print(sys.executable)" 2> /dev/null) || \
	  { python=$(BIN)/python; echo "no Python 3.12 is found: the runtime's packages run with $$($(BIN)/python -V)"; }; \
	$(BIN)/uv venv --quiet --clear --python "$$python" .venv/databricks
	@$(BIN)/uv pip install --quiet --python .venv/databricks/bin/python --require-hashes -r requirements-build.lock
	@$(BIN)/uv pip sync --quiet --python .venv/databricks/bin/python --no-build-isolation --require-hashes \
	  requirements-databricks.lock
	@mkdir -p .venv/databricks/share && ln -sfn ../../share/sessionization .venv/databricks/share/sessionization
	@touch $@

$(READERS): $(READY) requirements-readers.lock
	@echo "fetching Polars, one more reader of the tables (once)"
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-build-isolation --require-hashes \
	  -r requirements-readers.lock
	@touch $@

$(POSTGRES): $(READY) requirements-postgres.lock
	@echo "fetching a Postgres server (once; 25 MB)"
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-build-isolation --require-hashes \
	  -r requirements-postgres.lock
	@touch $@

$(CLASSES): $(READY)
	@echo "archiving the classes of Spark, so that engines start faster (once; two minutes)"
	@$(BIN)/python -m tests.faults.archive_classes
	@touch $@

demo: $(READY) ## run simulator and job together for a minute, with a live view
	@$(BIN)/python jobs/demo.py --folder $(DEMO)

demo-kafka: $(READY) $(BROKER) ## run the demo through its own Kafka broker
	@$(BIN)/python jobs/demo.py --folder $(DEMO)-kafka --source kafka

demo-serving: $(READY) $(POSTGRES) ## run the demo with a Postgres of its own, and ask that each second who plays now
	@$(BIN)/python jobs/demo.py --folder $(DEMO)-serving --serving

# From the environment, so that a query may have several lines and double quotes.
sql: export QUERY := $(value Q)
sql: $(READY) ## query the demo's tables at a prompt, or once: make sql Q="SELECT count(*) FROM live_sessions"
	@$(BIN)/python jobs/query.py --warehouse $(DEMO)/warehouse $${QUERY:+--sql "$$QUERY"}

players: $(READY) ## bring the demo's tables of players up to date, and print the numbers of each day and game
	@$(BIN)/python jobs/players.py --warehouse $(DEMO)/warehouse
	@$(MAKE) --no-print-directory sql Q="SELECT day, title, dau, new_players, sessions, \
	  play_ms DIV 60000 AS play_minutes, length_p50_ms DIV 1000 AS median_seconds, peak_sessions, peak_minute \
	  FROM daily_activity WHERE platform = 'all' ORDER BY day DESC, dau DESC"

notebooks: $(NOTEBOOKS) ## open the notebooks in JupyterLab, on the tables of notebook-data, or of the demo
	@[ -f .demo/widgets.json ] || $(MAKE) --no-print-directory notebook-data
	@$(BIN)/python -m jupyterlab --ServerApp.root_dir=notebooks --LabApp.default_url=/lab/tree/01_tour.ipynb $(AS_ROOT)

notebook-data: $(NOTEBOOKS)
notebook-data: ## create the notebooks' data, once: an evening through the real job, a small benchmark; four minutes
	@$(BIN)/python -m sessionization_laptop.notebook_data
	@[ -f .bench/mlflow.db ] || $(BIN)/python -m tests.bench --quick --only groups

pictures: $(NOTEBOOKS) ## make the pictures of README and rules again: of a demo, and of the sample evening
	@$(BIN)/python jobs/demo.py --folder build/pictures --picture docs/images/demo.svg
	@$(BIN)/python -m tools.pictures

test: $(READY) $(BROKER) $(CONNECT) $(DATABRICKS) $(POSTGRES) $(CLASSES)
test: ## run all tests except the long ones: first the tests without Spark, then the others, with whole jobs first
	@$(UNIT)
	@$(PYTEST) --doctest-modules $(DOCTESTS)
	@$(PYTEST) tests -m "(spark or job) and not long" -n 2 $(IN_PARALLEL)

test-notebooks: $(CONNECT) ## run every notebook without a browser, and nutter's tests
	@$(NOTEBOOK_TESTS)

test-faults: $(READY) $(BROKER) $(HDFS) $(S3) $(CONNECT) $(DATABRICKS) $(READERS) $(POSTGRES) $(CLASSES)
test-faults: ## kill the job at every boundary, and cause every other fault: make test-faults SEEDS=4 KILLS=50
	@$(BIN)/python -m sessionization_laptop.engine.jars msk
	@$(PYTEST) tests -m long
	@$(BIN)/python -m tests.faults --seeds $(SEEDS) --kills $(KILLS)
	@$(BIN)/python -m tests.faults --seeds 1 --kills $(KILLS) --source table
	@$(BIN)/python -m tests.faults --seeds $(SEEDS) --kills $(KILLS) --pings

soak: $(READY) $(BROKER) ## hold a load from Kafka: make soak MINUTES=5 RATE=2000 LIVE=50000
	@$(BIN)/python -m tests.bench.soak --minutes $(MINUTES) --rate $(RATE) --live $(LIVE) --device-groups $(GROUPS)

bench: $(BENCH) ## measure the operator, three runs each, some hours: make bench ARGS="--only 500,000"
	@$(BIN)/python -m tests.bench $(ARGS)

bench-quick: $(BENCH) ## measure small loads, one run each: three minutes
	@$(BIN)/python -m tests.bench --quick $(ARGS)

$(BUILD)/.ready: requirements-build.lock
	@$(PYTHON) -m venv --clear $(@D)/..
	@$(BUILD)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-build.lock
	@touch $@

watched: # a deploy for players runs this target (databricks.yml), with the value of on_call on stdin
	@IFS= read -r on_call || true; \
	case "$$on_call" in \
	  ?*@?*) ;; \
	  *) echo "nobody would hear of failures, for '$$on_call' is no mail address:" \
	       "say whose it is with --var on_call=ADDRESS, BUNDLE_VAR_on_call or on_call in the file of overrides" >&2; \
	     exit 2 ;; \
	esac

deploy: $(READY) ## check a target's values, then deploy it: make deploy T=prod ARGS="--var on_call=ADDRESS"
	@databricks bundle validate --strict -t $(T) $(ARGS)
	@databricks bundle validate -t $(T) $(ARGS) -o json | $(BIN)/python -m tools.bundle
	@databricks bundle deploy -t $(T) $(ARGS)

docs-tour: $(NOTEBOOKS) ## run the tour, two minutes, so that `make docs` shows it with its pictures
	@$(BIN)/python -m tools.docs.tour

# With --quiet, --strict finds nothing.
docs: export NO_MKDOCS_2_WARNING := 1
docs: $(DOCS) ## build the documentation's site in site/, begin with site/index.html; a broken link fails
	@$(BIN)/python -m tools.docs
	@PATH="$(CURDIR)/.venv/docs/bin:$$PATH" mkdocs build --strict

wheel: export SOURCE_DATE_EPOCH := 315532800
wheel: $(BUILD)/.ready ## build the wheels of library (dist/) and simulator (dist/simulator/), as the bundle deploys them
	@rm -rf dist
	@cd lib/sessionization && \
	  $(abspath $(BUILD))/python -m hatchling build --target wheel --directory $(CURDIR)/dist
	@cd lib/sessionization_simulator && \
	  $(abspath $(BUILD))/python -m hatchling build --target wheel --directory $(CURDIR)/dist/simulator

release: export SOURCE_DATE_EPOCH := 315532800
release: $(READY) ## build, try and tag a release, wheel and sdist in build/release: make release VERSION=0.3.0
	@$(BIN)/python -m tools.release "$(VERSION)"

release-check: export SOURCE_DATE_EPOCH := 315532800
release-check: $(READY) ## build wheel and sdist of this checkout in build/release, and try them
	@$(BIN)/python -c "from tools.release import build_and_try; build_and_try()"

lint: $(READY) ## check the format, lint rules and strict types
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

check: lint ## run lint and the unit tests; do this before a commit
	@$(UNIT)
	@$(PYTEST) --doctest-modules $(DOCTESTS)

format: $(READY) ## format, and apply the automatic fixes of lint
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

lock: $(READY) ## resolve the locks again from pyproject.toml
	@for lock in "--group build -o requirements-build.lock" \
	  "--extra local --extra avro --extra kafka --extra metrics --extra serving --group dev -o requirements.lock" \
	  "--extra java --no-deps -o requirements-java.lock" \
	  "--group bench --constraints requirements.lock -o requirements-bench.lock" \
	  "--extra forecast --extra mlflow --extra notebooks --group notebooks --constraints requirements.lock \
	  --constraints requirements-bench.lock -o requirements-notebooks.lock" \
	  "--group connect --constraints requirements-notebooks.lock --constraints requirements.lock -o requirements-connect.lock" \
	  "--group readers --constraints requirements-notebooks.lock --constraints requirements.lock -o requirements-readers.lock" \
	  "--group postgres --constraints requirements-notebooks.lock --constraints requirements.lock -o requirements-postgres.lock"; do \
	  $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --upgrade \
	    pyproject.toml $$lock; \
	done
	@for group in docs s3; do \
	  $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --upgrade \
	    --group $$group -o requirements-$$group.lock; \
	done
	@$(BIN)/uv pip compile --quiet --python-platform linux --python-version 3.12 --generate-hashes --no-header --upgrade \
	  --constraints tools/bundle/runtime_packages.txt --extra avro --extra forecast --extra kafka --extra metrics --extra serving \
	  --group databricks pyproject.toml -o requirements-databricks.lock

clean: ## remove the environment, the tables of demo and notebooks, and the benchmarks' results
	@rm -rf .venv .venv-build .bench .notebooks build dist site $(DEMO) $(DEMO)-kafka $(DEMO)-serving
