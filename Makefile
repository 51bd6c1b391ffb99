# Everything that a user types. `make help` lists it.

VENV   ?= .venv
# Of XLA devices, whose library has a torch of its own. Tests run on TPU or CPU.
TPU_VENV    ?= .venv-tpu
# Of trainers, trackers and lm-evaluation-harness, whose adapters are tested in it.
TRAINERS_VENV ?= .venv-trainers
PJRT_DEVICE ?= CPU
PYTHON ?= python3
# nproc alone would answer with the threads that OpenMP may use.
CORES  ?= $(shell env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc 2>/dev/null || sysctl -n hw.ncpu)
CONFIG ?= config.yaml
# Of the experiment that README, docs/results.md and recorded/ show: workflow/configs/decide.yaml.
DECIDED ?= results/decide
ASKED    = $(firstword $(wildcard $(DECIDED)/databases/requested.duckdb) $(DECIDED)/pike.duckdb)
# Of workflow/profiles; a path to it is its name, too.
PROFILE ?= default
override PROFILE := $(notdir $(patsubst %/,%,$(PROFILE:/config.yaml=)))
# cpu: the versions that this release was tested with. cuda: the newest torch, with CUDA.
# Where the CPU builds of torch are; without it, torch is the package index's own (TORCH_INDEX=).
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
# SHA-256 of every package's files but torch's; without it (HASHED=), versions alone are fixed.
HASHED ?= requirements-hashed.txt
# Whatever the environment was made with stays, unless another is asked for.
ifndef TORCH
TORCH  := $(or $(patsubst $(VENV)/.ready-%,%,$(firstword $(wildcard $(VENV)/.ready-*))),cpu)
endif

# A misspelt TARGETS would run everything.
SETTINGS := ASKED CONFIG CORES DECIDED EXTRAS HASHED PJRT_DEVICE PROFILE PYTHON READY TARGETS TORCH TORCH_INDEX TPU_VENV \
  TRAINERS_VENV VENV VERSION
GIVEN    := $(foreach name,$(.VARIABLES),$(if $(filter command,$(subst command line,command,$(origin $(name)))),$(name)))
UNKNOWN  := $(filter-out $(SETTINGS) MAKECMDGOALS MAKEFLAGS MAKEOVERRIDES,$(GIVEN))
$(if $(UNKNOWN),$(error $(UNKNOWN): no setting of this Makefile; these are: $(SETTINGS)))
STRAY    := $(strip $(foreach goal,$(filter-out %/.ready%,$(MAKECMDGOALS)),$(if $(findstring .,$(goal)),$(goal))))
# Of a setting that was given, the file behind it is one more.
TYPED    := $(if $(filter %.yaml %.yml,$(STRAY)),CONFIG,TARGETS)
MEANT    := $(TYPED)="$(strip $(if $(filter $(TYPED),$(GIVEN)),$($(TYPED))) $(STRAY))"
$(if $(STRAY),$(error $(STRAY): files stand behind CONFIG= or TARGETS=, several of them in quotes: make run $(MEANT), and make dag $(MEANT) to list the jobs))

BIN       := $(VENV)/bin
READY     := $(VENV)/.ready-$(TORCH)
# Snakemake keeps what it has fetched in the home folder, and does not start where there is none to write to, nor
# for a user without a name, as containers have them.
ifeq ($(shell mkdir -p "$$HOME/.cache" 2>/dev/null && test -w "$$HOME/.cache" && echo writable),)
export XDG_CACHE_HOME ?= $(CURDIR)/.snakemake/cache
export XDG_CONFIG_HOME ?= $(CURDIR)/.snakemake/config
export XDG_DATA_HOME ?= $(CURDIR)/.snakemake/data
endif
ifeq ($(USER)$(LOGNAME)$(shell id -un 2>/dev/null),)
export USER := uid-$(shell id -u)
endif
# The targets follow, and --configfile would take them for files. On a cluster, cores of this machine would
# limit the threads of its jobs: profiles of one machine say themselves that they take all. Files are judged before
# Snakemake reads them, which runs the code of templates.
SNAKEMAKE  = $(BIN)/python -m pipeline.planning.planner workflow/profiles/$(PROFILE)/config.yaml $(CONFIG) && \
  PYTHONPATH="$(CURDIR)/workflow/plugins$${PYTHONPATH:+:$$PYTHONPATH}" \
  $(BIN)/snakemake $(SHOWN) --configfile $(CONFIG) --profile workflow/profiles/$(PROFILE) \
  $(if $(filter-out file,$(origin CORES)),--cores $(CORES))
# Bars in place of a block for each job, which .snakemake/log has.
run quick report article: SHOWN := --logger pike
# A process for each core, each with one thread. Whoever has no test left takes over from another.
# A process keeps what it has compiled for those after it, even where the environment says not to.
PYTEST    := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(CORES) --maxprocesses 8 --dist worksteal
# And one more where tests wait: for what they kill, for a browser, for Snakemake.
WAITING   := -n $$(($(CORES) + 1))

.DEFAULT_GOAL := help
.PHONY: help record restore setup setup-tpu wheel run quick test test-trainers test-slurm test-tpu gpu-check check lint format article report dag docs headline lock release schema site bench unlock clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(READY) ## Make the environment in .venv (TORCH=cuda for NVIDIA GPUs, EXTRAS=hf,wandb for more)
	$(if $(EXTRAS),$(BIN)/python -m pip install --disable-pip-version-check --quiet --constraint $(VENV)/constraints.txt --editable '.[$(EXTRAS)]')

# Of another build of torch, pip would say that it is the version wanted.
$(READY): pyproject.toml constraints-cpu.txt $(HASHED)
	$(if $(filter-out $(READY),$(wildcard $(VENV)/.ready-*)),$(BIN)/python -m pip uninstall --quiet --yes torch && rm $(VENV)/.ready-*)
	grep -v $(if $(filter cuda,$(TORCH)),'^torch==','^#') constraints-cpu.txt | \
	  workflow/setup.sh $(PYTHON) $(VENV) finders,hub,test,lint "$(if $(filter cuda,$(TORCH)),,$(TORCH_INDEX))" $(HASHED)
	rm -f $(VENV)/.ready-* && touch $@

setup-tpu: $(TPU_VENV)/.ready ## Make the environment for TPUs in .venv-tpu (8 GB)

$(TPU_VENV)/.ready: pyproject.toml constraints-cpu.txt constraints-tpu.txt
	{ grep -v '^torch==' constraints-cpu.txt; cat constraints-tpu.txt; } | workflow/setup.sh $(PYTHON) $(TPU_VENV) tpu,test
	touch $@

wheel: $(READY) ## Build the library pike-mixing, which needs NumPy alone, into dist/
	$(BIN)/python -m pip wheel --disable-pip-version-check --quiet --no-deps --wheel-dir dist ./pike_mixing

run: $(READY) ## Run the experiment (CONFIG=..., PROFILE=..., CORES=...) with its report, or TARGETS="FILE FILE" of it
	$(SNAKEMAKE) $(TARGETS)

quick: $(READY) ## Build the first tables and figures alone: minutes
	$(SNAKEMAKE) quick

test: $(READY) ## Run every test that needs neither an accelerator nor a trainer's package (make test-trainers)
	$(PYTEST) $(WAITING) -m 'not device'

# Every file with tests that skip where a trainer, a tracker or the harness is not installed.
TRAINERS_TESTS := tests/integration tests/mixtures/test_delivered.py tests/mixtures/test_export.py tests/comparison/test_compare.py tests/data/test_json_tokenizer.py tests/data/test_rows_for_trainers.py tests/evaluation/test_oracle.py \
  tests/model/test_foreign.py tests/model/test_hf_config.py tests/model/test_hf_export.py tests/model/test_hf_tokenizer.py tests/training/test_track.py
test-trainers: $(TRAINERS_VENV)/.ready ## Run the tests of adapters to trainers, trackers and the harness, which it installs (3 GB)
	PIKE_TEST_NEEDS_PACKAGES=1 $(subst $(BIN),$(TRAINERS_VENV)/bin,$(PYTEST)) -m 'not device' $(TRAINERS_TESTS)

$(TRAINERS_VENV)/.ready: pyproject.toml constraints-cpu.txt constraints-trainers.txt
	# The harness needs an older python-dateutil.
	{ grep -v '^python-dateutil==' constraints-cpu.txt; cat constraints-trainers.txt; } | \
	  workflow/setup.sh $(PYTHON) $(TRAINERS_VENV) bench,finders,hf,hub,mlflow,tensorboard,test,torchtitan,trainers,wandb "$(TORCH_INDEX)"
	touch $@

test-slurm: $(READY) ## Run the tests that need a real Slurm, which they install and start (Debian, as root)
	tests/slurm/onenode.sh install accounting
	PIKE_TEST_SLURM=1 $(BIN)/python -m pytest tests/workflow/test_slurm*.py

test-tpu: $(TPU_VENV)/.ready ## Run the tests of XLA devices (PJRT_DEVICE=TPU on a TPU)
	PJRT_DEVICE=$(PJRT_DEVICE) $(TPU_VENV)/bin/python -m pytest -m device tests/training/test_xla.py tests/training/test_xla_chips.py \
	  tests/workflow/test_interruption.py

gpu-check: $(READY) ## Check an NVIDIA GPU: tests, speed, same bits, the first tables; record it
	$(BIN)/python -m benchmarks.gpu_check

check: $(READY) ## Run the fast tests alone
	$(PYTEST) -m 'not slow and not workflow and not device'

lint: $(READY) ## Check format, style, types and spelling
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/codespell

format: $(READY) ## Put the sources into the house's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/snakefmt Snakefile workflow

article: $(READY) ## Build all tables and figures as one page, and as PDF where chromium is installed
	$(SNAKEMAKE) pdf

report: $(READY) ## Build the report alone, with what it needs
	$(SNAKEMAKE) report

record: $(READY) ## Write the records of the deciding experiment into recorded/, from which `make restore` builds all
	$(BIN)/pike record $(DECIDED) --out recorded

restore: $(READY) ## Build database, tables, figures, report from recorded/: about a minute, no training
	OMP_NUM_THREADS=1 $(BIN)/pike restore recorded --out restored

dag: $(READY) ## List the jobs that `make run` would start, and why (CONFIG, PROFILE, TARGETS as there)
	$(SNAKEMAKE) $(TARGETS) --dry-run

docs: $(READY) ## Write the pages anew that are made from the code or from records of benchmarks
	$(BIN)/python docs/reference.py
	$(BIN)/python -m benchmarks.performance_page
	$(BIN)/pike methods --format markdown > docs/methods.md.part && mv docs/methods.md.part docs/methods.md

headline: $(READY) ## Write docs/results.md, docs/claims.md and the README's picture from the deciding experiment
	$(BIN)/python -m pipeline.results.headline $(ASKED) docs
	$(BIN)/python -m benchmarks.claims $(ASKED)

lock: $(READY) ## Write requirements-hashed.txt anew, of pyproject.toml and constraints-cpu.txt
	$(MAKE) setup EXTRAS=release
	echo 'torch; python_version < "3"' > $(VENV)/no-torch.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	  --extra finders --extra hub --extra test --extra lint --constraint constraints-cpu.txt \
	  --override $(VENV)/no-torch.txt --output-file requirements-hashed.txt pyproject.toml

release: $(READY) ## Prepare a release (VERSION=1.2.3): version, changelog, archives, checks, tag
	$(MAKE) setup EXTRAS=release
	workflow/release.sh $(BIN)/python $(VERSION)

schema: $(READY) ## Write workflow/schemas/config.schema.yaml anew
	$(BIN)/python -m pipeline.planning.schema

site: $(READY) ## Build the documentation as a site: build/site/index.html
	$(MAKE) setup EXTRAS=site
	$(BIN)/python -m sphinx -q -W --keep-going -c docs . build/site

bench: $(READY) ## Measure beside other packages, and record under benchmarks/results (hours; 20 GB of disk)
	# lm_eval needs an older python-dateutil: held to ours, pip takes years-old versions of what asks for it.
	grep -v '^python-dateutil==' $(VENV)/constraints.txt > $(VENV)/constraints-bench.txt
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --constraint $(VENV)/constraints-bench.txt --editable '.[bench,hub]'
	# The requirements of these would take other packages back to older versions.
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --requirement benchmarks/peers.txt
	set -e; for name in planning mixing packing reading memory loss measuring_cost training precision scoring estimators error_rates length_rates error_rates_page stream_resumes performance_page finders own_swarm two_phases finders_page; do \
		$(BIN)/python -m benchmarks.$$name; done

unlock: $(READY) ## Free the working folder after a killed run
	$(SNAKEMAKE) --unlock

clean: ## Delete the environment, wheels and caches; results stay
	rm -rf $(VENV) $(TPU_VENV) $(TRAINERS_VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
