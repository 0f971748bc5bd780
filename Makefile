# Everything runs in .venv, made from constraints.txt. The two you need: make demo, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Where no bytecode may be written, each process compiles all that it imports anew: 4 s.
unexport PYTHONDONTWRITEBYTECODE

# What is linted as prose.
PROSE := $(wildcard docs/*.md docs/decisions/*.md docs/papers/*.md docs/tutorials/*.md *.md papers/*.md)

# What `make reproductions` writes: a line a page, the arguments of `unrack reproduce`, with commas for blanks.
POOL_PAGES := nvme-s1 nvme-s2 nvme-s3 nvme-nodes nvme-policies nvme-deadlines nvme-devices nvme-fio \
	vgpu-split vgpu-nodes vgpu-heterogeneous vgpu-overhead \
	nvme-s1,--arrivals,fixed,--offer,0.8=0.9,--offer,0.9=1.4 nvme-s2,--arrivals,fixed nvme-s3,--arrivals,fixed \
	nvme-s1,--as-authors,--offer,0.8=0.9,--offer,0.9=1.4 nvme-s2,--as-authors nvme-s3,--as-authors
MEMORY_PAGES := memory-throughput memory-response memory-response,--workload-jobs,16000,--seeds,1 \
	memory-utilisation memory-threshold memory-policies memory-groups memory-overhead memory-prediction \
	memory-published-jobs
PROVISIONING_PAGES := overestimation-throughput overestimation-response overestimation-users dynamic-throughput \
	dynamic-response dynamic-cost dynamic-memory dynamic-utilisation dynamic-users,--until-decided,6 dynamic-overestimation \
	dynamic-initial dynamic-sharing
TIER_PAGES := slo-violations slo-price slo-utilisation torus-placement torus-scaling
GPU_PAGES := gpu-timeline gpu-scenario1 gpu-pack-spread gpu-collocation \
	gpu-backfill,--workload-jobs,100
FLOW_PAGES := flow-makespan flow-network flow-utilisation flow-solvers
SERVERS ?=
TIMES ?=
PODS ?=
NODES ?=
POD_PAGE = gpu-fragmentation,--pods,$(PODS),--nodes,$(NODES)
ONLY ?= live
PAGES ?= $(POOL_PAGES) $(MEMORY_PAGES) $(PROVISIONING_PAGES) $(TIER_PAGES) $(GPU_PAGES) $(FLOW_PAGES) \
	$(if $(TIMES),$(foreach name,gpu-timeline gpu-pack-spread gpu-collocation,$(name),--times,$(TIMES))) \
	$(if $(PODS),$(POD_PAGE)) \
	$(if $(SERVERS),$(foreach name,slo-violations slo-price slo-utilisation,$(name),--servers,$(SERVERS)))

.PHONY: help demo test check lint types tests other-tests slow-tests worker-tests live k8sbox live-kubernetes test-pythons coverage bench reproductions pictures env clean docs docs-env notebooks tutorials stories gallery release

help:
	@echo "make demo      install what it needs, run examples/demo.toml, say where the report is"
	@echo "make test      install all, then make check"
	@echo "make check     ruff, spelling and prose, mypy --strict, tests: of many parameters and drawn examples of a test a fifth, none that takes long"
	@echo "make other-tests  the parameters that make test leaves out, of many seeds every other one, and a third of the examples"
	@echo "make slow-tests  everything in full (hours): all seeds and examples, whole scenarios against plain twins, all laws over all mixes, stories of faults"
	@echo "make worker-tests  one suite over processes, Dask and Ray, which it installs"
	@echo "make live      the tests against a real Slurm on this machine, as root; ONLY=live_quick: the two minutes that CI runs"
	@echo "make k8sbox    a Kubernetes control plane for tests, built from Go modules and kept (7 to 15 minutes the first time)"
	@echo "make live-kubernetes  the tests against it (8 minutes); make live runs them too"
	@echo "make test-pythons  the wheel, the demo and the quick tests on every Python 3.11 to 3.13 of this machine"
	@echo "make bench     the speed of the engine against a plain-Python reference"
	@echo "make reproductions  all pages of papers/docs/reproductions again (hours); PAGES='nvme-s1 torus-scaling': some of them;"
	@echo "               SERVERS=azure-1000-servers.json: with those of the published servers"
	@echo "make docs      the documentation as a site with search, its notebooks run and the outputs of its tutorials written again: site/index.html"
	@echo "make stories   the tutorials, their pages and notebooks from a fresh clone, each with its time"
	@echo "make gallery   reports and pictures of the gallery again (needs Chromium)"
	@echo "make pictures  the pictures of docs/ again (needs Chromium)"
	@echo "make release   wheels and sources of both distributions, with checked metadata: dist/"
	@echo "make coverage  the tests without real logs, with compilation off and line coverage (minutes)"
	@echo "make clean     remove the environment and what the tools left"

env: $(VENV)/.made

PIP := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --constraint constraints.txt
# What builds the two is installed once, not for each of them in an environment of its own.
EDITABLE := $(PIP) --no-build-isolation --editable

$(VENV)/.demo: pyproject.toml papers/pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "The venv module is missing: apt-get install python3-venv"; exit 1; }
	$(PIP) hatchling editables
	$(EDITABLE) '.[figures]' --editable ./papers
	@touch $@

$(VENV)/.made: $(VENV)/.demo
	$(EDITABLE) '.[all,dev]' --editable ./papers
	@touch $@

demo: $(VENV)/.demo
	$(BIN)/unrack run examples/demo.toml --out out/demo

test: env
	$(MAKE) check

# Types are checked beside the tests, which leaves neither of two processors idle.
check: lint
	$(MAKE) --jobs=2 types tests

lint: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(BIN)/codespell src papers/src benchmarks
	@$(BIN)/codespell --dictionary - --dictionary tools/prose/words.txt $(PROSE)
	@$(BIN)/proselint check $(PROSE)

types: env
	$(BIN)/mypy

tests: env
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations=30

other-tests: env
	$(BIN)/python -m pytest -n 2 --dist worksteal --tries rest

slow-tests: env
	$(BIN)/python -m pytest -n 2 --dist worksteal --tries all -m "not live"

worker-tests: env
	$(EDITABLE) '.[all,dev,dask,ray]' --editable ./papers
	$(BIN)/python -m pytest tests/workers -m "slow or not slow"

live: env
	@command -v slurmctld >/dev/null && command -v munged >/dev/null || \
		{ PATH="$$PATH:/usr/sbin:/sbin"; command -v slurmctld && command -v munged; } >/dev/null || \
		echo "No Slurm here, so all will be skipped: apt-get install slurm-wlm slurm-wlm-basic-plugins munge"
	$(BIN)/python -m pytest tests/live -m $(ONLY)

k8sbox:
	@$(PYTHON) tools/k8sbox/make_k8sbox.py

live-kubernetes: env
	$(BIN)/python -m pytest -n 2 --dist worksteal tests/live/kubernetes -m "live and not slow" --durations=5

test-pythons:
	.ci/pythons tests

coverage: env
	$(PIP) coverage
	NUMBA_DISABLE_JIT=1 UNRACK_DATA=none $(BIN)/python -m coverage run --source=src/unrack -m pytest -p no:xdist --tries all
	$(BIN)/python -m coverage report --skip-covered

bench: env
	$(BIN)/python benchmarks/engine.py

reproductions: env
	for page in $(PAGES); do $(BIN)/unrack reproduce $$(echo $$page | tr , ' ') --out papers/docs/reproductions || exit 1; done

docs-env: env
	$(EDITABLE) '.[all,docs]' --editable ./papers

notebooks:
	$(BIN)/python tests/stories/notebook.py

tutorials:
	$(BIN)/python tests/stories/tutorial.py

docs: docs-env
	$(MAKE) --jobs=2 notebooks tutorials
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "site/index.html"

stories:
	$(PYTHON) tests/stories/stories.py

gallery: env
	$(BIN)/python docs/_site/make_gallery.py

release: env
	$(EDITABLE) '.[release]'
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m build --outdir dist papers
	$(BIN)/python -m twine check --strict dist/*

pictures: env
	$(BIN)/python docs/images/pictures.py

clean:
	rm -rf $(VENV) out site .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
