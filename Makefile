# `make help` lists the commands. Each makes what it needs, in .venv and .cache, and does nothing twice.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTEST ?= .venv/bin/python -m pytest
EXTENSIONS := $(shell find ext format/ext -name '*.pyx' -o -name '*.pxd')

FAKER := .cache/venvs/faker
PYAIRBYTE := .cache/venvs/pyairbyte
OLDEST := .cache/venvs/oldest
PANDAS3 := .cache/venvs/pandas3
DEEPLAKE3 := .cache/venvs/deeplake3
FRAMEWORKS := .cache/venvs/frameworks
RAY := .cache/venvs/ray
DEVICE := .cache/venvs/device
VECTORS := .cache/venvs/vectorstores
RELEASE := .cache/venvs/release
FORMATS := .cache/venvs/formats
IMAGE ?= destination-deeplake:dev
# Of PyTorch, the release whose wheel has no CUDA where both kinds are offered.
TORCH ?= torch==2.13.0
# What format/pyproject.toml requires.
NEEDED := numpy pyarrow lz4 xxhash pillow simplejpeg tqdm click obstore botocore cloudpickle

# The tests start hundreds of processes; where this is set, each would compile the library again.
unexport PYTHONDONTWRITEBYTECODE
export DO_NOT_TRACK := 1
export AIRBYTE_OFFLINE_MODE := 1

# Files in memory: the suite writes and syncs hundreds of thousands. Real disks: integration_tests/power, make soak.
define IN_MEMORY
if [[ -w /dev/shm && $$(df --output=avail -k /dev/shm | tail -1) -ge 4000000 &&
	$$(df --output=iavail /dev/shm | tail -1) -ge 1000000 ]]; then
	export PYTEST_DEBUG_TEMPROOT=$$(mktemp -d /dev/shm/tests-XXXXXX)
	trap 'rm -rf "$$PYTEST_DEBUG_TEMPROOT"' EXIT
fi
endef

.PHONY: help
help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: .venv/.run $(FAKER)/.ready ## a real Airbyte source -> ./demo-lake -> batches
	@demo/demo.sh

.PHONY: check
check: .venv/.dev ## what was changed, in two minutes: style, types, its tests and a fast core
	@$(IN_MEMORY)
	.venv/bin/python scripts/check.py

.PHONY: test
test: .venv/.dev $(FAKER)/.ready $(PYAIRBYTE)/.ready $(OLDEST)/.ready ## unit tests and the fast integration tests
	@$(IN_MEMORY)
	# A seed: random numbers of tests are the same each time. One process more than cores: tests wait, too.
	$(PYTEST) -n $$(($$(getconf _NPROCESSORS_ONLN) + 1)) --dist worksteal --durations=15 --randomly-seed=1 $(TESTS)

.PHONY: test-pandas
test-pandas: .venv/.dev $(PANDAS3)/.ready ## the unit tests that use pandas, with pandas 3
	PYTHONPATH=$$(echo $(CURDIR)/$(PANDAS3)/lib/python*/site-packages) $(PYTEST) $$(grep -rl --include='test_*.py' pandas unit_tests)

.PHONY: test-stores
test-stores: .venv/.dev .cache/stores/.ready ## real object stores: Ceph, Azurite, GCS, rclone, web servers, bad networks
	@# A part of test_suite waits minutes for its own tests, which dump their stacks themselves where they hang.
	$(PYTEST) -m "stores and not soak" -o faulthandler_timeout=7200 integration_tests/stores $(TESTS)

.PHONY: lint
lint: .venv/.dev ## style, types, layers, cycles, docstrings, the viewer's page
	@.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	MYPYPATH=format .venv/bin/stubtest lakebed.native destination_deeplake.native --concise --ignore-disjoint-bases --mypy-config-file pyproject.toml
	PYTHONPATH=.:format .venv/bin/lint-imports
	.venv/bin/python scripts/cycles.py
	.venv/bin/python scripts/docstrings.py
	scripts/page.sh

.PHONY: checked
checked: .venv/.dev ## the tests of the compiled core, built so that it checks every index and division
	@export LAKEBED_NATIVE_CHECKS=1
	.venv/bin/python setup.py -q build --build-base .cache/checked --build-lib .cache/checked/lib
	(cd format && ../.venv/bin/python setup.py -q build --build-base ../.cache/checked --build-lib ../.cache/checked/lib)
	$(PYTEST) -o pythonpath=".cache/checked/lib ." unit_tests/lakebed/native unit_tests/destination_deeplake/test_wire.py unit_tests/lakebed/upserts/test_keys.py $(TESTS)

.PHONY: bench
bench: .venv/.dev $(FAKER)/.ready $(PYAIRBYTE)/.ready ## speed and memory against peers, in the same run
	@.venv/bin/python -m benchmarks.sync $(BENCH)
	.venv/bin/python -m benchmarks.sockets $(BENCH_SOCKETS)
	.venv/bin/python -m benchmarks.upserts $(BENCH_UPSERTS)
	.venv/bin/python -m benchmarks.format $(BENCH_FORMAT)
	.venv/bin/python -m benchmarks.startup $(BENCH_STARTUP)
	.venv/bin/python -m benchmarks.versions $(BENCH_VERSIONS)
	.venv/bin/python -m benchmarks.query $(BENCH_QUERY)
	.venv/bin/python -m benchmarks.remote $(BENCH_REMOTE)
	.venv/bin/python -m benchmarks.loader $(BENCH_LOADER)
	.venv/bin/python -m benchmarks.transform $(BENCH_TRANSFORM)
	[[ -z "$$LAKEBED_COCO" ]] || .venv/bin/python -m benchmarks.imports $(BENCH_IMPORTS)
	[[ -z "$$BENCH_PHOTOS" ]] || .venv/bin/python -m benchmarks.regions "$$BENCH_PHOTOS"

.PHONY: device
device: .venv/.run $(DEVICE)/.ready ## photos to a GPU beside DataLoader and torchvision, six minutes; on the CPU where there is none
	@PYTHONPATH=$(CURDIR):$(CURDIR)/format timeout 360 $(DEVICE)/bin/python -m benchmarks.device $(BENCH_DEVICE)

.PHONY: bench-viewer
bench-viewer: .venv/.viewer ## the viewer against its bars, in a real Chromium
	@.venv/bin/python -m benchmarks.viewer $(BENCH_VIEWER)

.PHONY: interop
interop: .venv/.dev $(FAKER)/.ready $(DEEPLAKE3)/.ready ## Deep Lake 3.9.52 reads and extends what we write, and back
	@[[ -d demo-lake ]] || $(MAKE) demo
	$(PYTEST) -m interop integration_tests/interop

.PHONY: frameworks
frameworks: .venv/.run $(FRAMEWORKS)/.ready $(VECTORS)/.ready ## loaders in PyTorch, Lightning, accelerate, transformers, TensorFlow, Keras, JAX; stores of LangChain, LlamaIndex
	@$(IN_MEMORY)
	# A process for each file: some frameworks do not bear each other, nor forks of a process that has loaded them.
	for file in integration_tests/frameworks/test_*.py; do
		PYTHONPATH=$(CURDIR):$(CURDIR)/format $(FRAMEWORKS)/bin/python -m pytest -m frameworks $$file $(TESTS)
	done
	PYTHONPATH=$(CURDIR):$(CURDIR)/format $(VECTORS)/bin/python -m pytest -m frameworks integration_tests/vectorstores $(TESTS)

.PHONY: ray
ray: .venv/.run $(RAY)/.ready ## transforms and queries on a Ray cluster whose nodes are killed; datasets of Ray Data, Dask and Spark
	@$(IN_MEMORY)
	PYTHONPATH=$(CURDIR):$(CURDIR)/format $(RAY)/bin/python -m pytest -m ray integration_tests/ray $(TESTS)

.PHONY: formats
formats: .venv/.run $(FORMATS)/.ready ## data sets that other libraries write come in as these read them
	@$(IN_MEMORY)
	PYTHONPATH=$(CURDIR):$(CURDIR)/format $(FORMATS)/bin/python -m pytest -m "formats and not soak" integration_tests/formats $(TESTS)

.PHONY: soak
soak: .venv/.dev $(FAKER)/.ready $(PYAIRBYTE)/.ready $(DEEPLAKE3)/.ready .cache/stores/.ready $(FORMATS)/.ready ## the long tests: kills, a million rows, fuzz with sanitizers
	@LAKEBED_TESTS=soak $(PYTEST) -m "soak or not (interop or image)" --timeout=86400 -o faulthandler_timeout=7200 $(TESTS)
	PYTHONPATH=$(CURDIR):$(CURDIR)/format $(FORMATS)/bin/python -m pytest -m "formats and soak" integration_tests/formats
	scripts/sanitize.sh $(SANITIZE)

.PHONY: wheels
wheels: $(RELEASE)/.ready ## source distributions and manylinux wheels, installed and tried, into dist/
	@$(RELEASE)/bin/python scripts/wheels.py $(PYTHONS)

.PHONY: version
version: ## print the version; TO=1.2.3 sets it everywhere
	@now=$$(sed -n 's/^__version__ = "\(.*\)"$$/\1/p' format/lakebed/__init__.py)
	[[ -n "$(TO)" ]] || { echo "$$now" && exit; }
	sed -i '/version\|VERSION\|ImageTag\|destination-deeplake =\|^copyright/s/'"$${now//./\\.}/$(TO)/" format/lakebed/__init__.py \
		Dockerfile metadata.yaml recipe/recipe.yaml registry/pyproject.toml mkdocs.yml

.PHONY: workflows
workflows: $(RELEASE)/.ready ## what a forge runs, held against its schema and the rules of a linter
	@$(RELEASE)/bin/check-jsonschema -q --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(RELEASE)/bin/check-jsonschema -q --builtin-schema vendor.dependabot .github/dependabot.yml
	$(RELEASE)/bin/zizmor -q --offline --strict-collection .github

.PHONY: recipe
recipe: $(RELEASE)/.ready ## the conda recipe, rendered for every system and Python
	@$(RELEASE)/bin/python scripts/recipe.py

.PHONY: registry
registry: ## what a pull request to Airbyte's repository adds, into dist/registry
	@python3 scripts/registry.py dist/registry

.PHONY: release-check
release-check: .venv/.dev wheels workflows recipe registry docs test-image ## all of a release that can run here; says what cannot
	@$(PYTEST) -q unit_tests/test_release.py unit_tests/test_setup.py unit_tests/destination_deeplake/test_metadata.py
	missed=()
	for version in 3.11 3.12 3.13 3.14; do
		compgen -G "dist/lakebed-*-cp$${version/./}-*.whl" >/dev/null || missed+=("wheels for Python $$version: none were built")
	done
	if ((EUID == 0)) && command -v debootstrap >/dev/null; then
		scripts/debian.sh
	else
		missed+=("a Debian without a compiler: needs root and debootstrap")
	fi
	if host=$$(scripts/docker.sh find); then
		export DOCKER_HOST=$$host
		$(RELEASE)/bin/syft -q scan docker:$(IMAGE) -o cyclonedx-json=dist/image.cdx.json
		docker image inspect "$$(sed -n 's/^ARG BASE_IMAGE=//p' Dockerfile)" >/dev/null 2>&1 ||
			missed+=("the image on Airbyte's base: no registry gave it, so the base was made of this machine's Python")
	else
		missed+=("the image: no Docker engine is here")
	fi
	cat <<-END
		Not checked here:
		* wheels for aarch64, musl and macOS, the image for arm64: start .github/workflows/release.yml by hand
		* signatures and uploads: only a tag does them
		* known vulnerabilities: no scanner has its list without a network
		* Windows: there are no wheels yet
	END
	for line in $${missed[@]+"$${missed[@]}"}; do echo "* $$line"; done

.PHONY: viewer
viewer: ## the viewer's page, from viewer/web into its dist; needs node
	@cd format/lakebed/viewer/web
	npm ci --no-audit --no-fund --loglevel=error
	npx vite build --logLevel=warn
	cat dist/index.html dist/assets/* | sha256sum
	# Before anything is shown; workers, the comparison and players are loaded when they are needed.
	size=$$(cat dist/index.html dist/assets/{index,static}.* | gzip -9n | wc -c)
	echo "$$size bytes in gzip are loaded at first, of at most 150000"
	((size <= 150000))

.PHONY: docs
docs: .venv/.docs ## the users' pages, into site/
	@.venv/bin/mkdocs build --strict

.PHONY: image
image: ## the connector's container image, on a Docker engine that is found or started
	@scripts/docker.sh build $(IMAGE) $(BASE_IMAGE)

.PHONY: test-viewer
test-viewer: .venv/.viewer ## the viewer's page in a real Chromium: pixels, hostile data, keyboard, a million rows
	@if [[ -z "$${LAKEBED_CHROMIUM:-$$(command -v chromium || command -v google-chrome)}" ]]; then
		echo "make test-viewer: no Chromium: apt-get install chromium, or name one in LAKEBED_CHROMIUM" >&2
		exit 1
	fi
	if command -v npm >/dev/null; then
		npm ci --prefix format/lakebed/viewer/web --no-audit --no-fund --loglevel=error # axe-core is there
	fi
	$(IN_MEMORY)
	$(PYTEST) -m "viewer or not viewer" integration_tests/viewer $(TESTS)

.PHONY: test-image
test-image: .venv/.dev $(FAKER)/.ready ## the image on a real Docker engine; says so where there is none
	@if ! scripts/docker.sh start >/dev/null; then
		echo "make test-image: skipped"
		exit
	fi
	$(MAKE) image
	IMAGE=$(IMAGE) $(PYTEST) -m image integration_tests/image $(TESTS)

.PHONY: tail
tail: .venv/.run ## the largest modules, classes and functions; the weight of the library
	@.venv/bin/python scripts/tail.py
	@.venv/bin/python scripts/measures.py

.PHONY: clean
clean: ## forget environments and caches
	@rm -rf .venv .cache build format/build dist demo-lake site

.PHONY: env
env: .venv/.dev ## the development environment, in .venv

# --- environments: a stamp each, older than what it was made from -> made again ---

.venv/.run: pyproject.toml format/pyproject.toml $(EXTENSIONS)
	@echo "installing the library and the connector into .venv (compiles their cores; a minute)"
	scripts/venv.sh .venv --group build
	# Apart: pip takes no editable library for the one that this checkout requires. The connector first: one from before
	# the library was a package of its own takes the command `lakebed` along when it goes.
	scripts/venv.sh --rebuild destination-deeplake .venv --no-build-isolation --no-deps -e .
	scripts/venv.sh --rebuild lakebed .venv --no-build-isolation -e './format[view]'
	touch $@

.venv/.dev: .venv/.run
	@echo "installing the tools for tests and lint into .venv"
	scripts/venv.sh .venv --group test --group lint
	touch $@

.venv/.docs: .venv/.dev
	@scripts/venv.sh .venv --group docs
	touch $@

.venv/.viewer: .venv/.dev
	@scripts/venv.sh .venv --group viewer
	touch $@

.cache/stores/.ready: scripts/stores.sh | .venv/.run
	@echo "installing object stores into $(@D)"
	scripts/stores.sh $(@D)
	touch $@

$(FAKER)/.ready: | .venv/.run
	@echo "installing airbyte-source-faker into $(@D)"
	scripts/venv.sh --python '>=3.10,<3.13' $(@D) airbyte-source-faker
	touch $@

$(PYAIRBYTE)/.ready: | .venv/.run
	@echo "installing PyAirbyte, which ships source-smoke-test, into $(@D)"
	scripts/venv.sh --python '>=3.10,<3.13' $(@D) airbyte
	touch $@

# The oldest releases that pyproject.toml allows, as far as there are wheels, and no pandas: users of 3.x have numpy 1.
$(OLDEST)/.ready: | .venv/.run
	@echo "installing numpy 1.26 and pyarrow 19 into $(@D)"
	PYTHON=$(CURDIR)/.venv/bin/python scripts/venv.sh $(@D) 'numpy==1.26.*; python_version < "3.13"' \
		'pyarrow==19.*; python_version < "3.13"' $(NEEDED)
	touch $@

# Users have pandas 3, which airbyte-cdk keeps out of .venv: its folder goes before that of .venv.
$(PANDAS3)/.ready: | .venv/.run
	@echo "installing pandas 3 into $(@D)"
	PYTHON=$(CURDIR)/.venv/bin/python scripts/venv.sh $(@D) --no-deps 'pandas>=3'
	touch $@

$(RELEASE)/.ready: pyproject.toml
	@scripts/venv.sh $(@D) --group release
	touch $@

$(DEEPLAKE3)/.ready: | .venv/.run
	@echo "installing Deep Lake 3.9.52 into $(@D)"
	scripts/venv.sh --python '>=3.10,<3.13' $(@D) 'deeplake==3.9.52' 'numpy<2' setuptools 'av<13' pydicom nibabel laspy numpy-stl plyfile
	touch $@

$(FRAMEWORKS)/.ready: | .venv/.run
	@echo "installing PyTorch, TensorFlow, JAX and what trains with them into $(@D)"
	UV=no scripts/venv.sh $(@D) $(NEEDED) \
		pytest pytest-timeout pytest-randomly pytest-xdist hypothesis 'moto[server]>=5.1'
	UV=no scripts/venv.sh $(@D) $(TORCH) 'tensorflow-cpu>=2.21' jax lightning transformers accelerate datasets
	# In a folder of its own: built for another PyTorch, it would break whatever imports it.
	$(@D)/bin/pip install -q --no-deps --upgrade --target $(@D)/torchvision torchvision
	touch $@

$(FORMATS)/.ready: | .venv/.run
	@echo "installing libraries of other data sets into $(@D)"
	# Of datasets, a release that takes the huggingface-hub of mosaicml-streaming. Of PyTorch, the one that torchvision's
	# wheel is made for, by which LitData decodes: seven gigabytes.
	UV=no scripts/venv.sh $(@D) $(NEEDED) \
		pytest pytest-timeout pytest-randomly pytest-xdist hypothesis webdataset lmdb plyvel protobuf google-crc32c h5py zarr 'datasets<5' \
		torch torchvision mosaicml-streaming litdata tfrecord 'deeplake>=4' bcolz-zipline 'dask[array]' \
		av pydicom nibabel laspy
	touch $@

$(VECTORS)/.ready: | .venv/.run
	@echo "installing LangChain and LlamaIndex into $(@D)"
	scripts/venv.sh $(@D) 'numpy<2' 'pyarrow<26' $(filter-out numpy pyarrow,$(NEEDED)) usearch protobuf \
		pytest pytest-timeout pytest-randomly pytest-xdist hypothesis 'langchain-community<0.4' 'llama-index-core<0.12' pyjwt
	scripts/venv.sh $(@D) --no-deps 'llama-index-vector-stores-deeplake<0.3' # which requires deeplake
	touch $@

# PyTorch as the package index offers it first: on Linux, with CUDA.
$(DEVICE)/.ready: | .venv/.run
	@echo "installing PyTorch and torchvision into $(@D)"
	UV=no scripts/venv.sh $(@D) $(NEEDED) torch torchvision
	touch $@

$(RAY)/.ready: | .venv/.run
	@echo "installing Ray, Dask and Spark into $(@D)"
	scripts/venv.sh $(@D) $(NEEDED) \
		pytest pytest-timeout pytest-randomly pytest-xdist hypothesis 'moto[server]>=5.1' 'ray>=2.40' 'dask[dataframe]>=2025.1' 'pyspark>=4.1' pandas
	touch $@
