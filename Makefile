# Two commands: `make demo` and `make test`. `make check` is for while one works: format, lints and unit tests of what changed.
# `make test-all` tries every variant instead of a sample, `make test-page` and `make test-clients` try the server with a browser and
# with other programs' clients, `make test-soak` for 20 minutes; `make shaders` and `make page` are for those who change GLSL, or
# the page; `make docs` makes a book of docs/.
SHADERC_DIR ?= $(HOME)/.cache/pumex/shaderc-0.10.1
APT = $(if $(filter 0,$(shell id -u)),,sudo) apt-get

.PHONY: demo check test test-host test-device test-all test-page test-clients test-python test-c test-soak wheel pumex.h \
  layer shaders check-shaders check-spirv \
  deny doubles faults fuzz page page-packages check-page docs system

# Installs only what is missing: a C linker, the Vulkan loader, and Mesa's drivers if there are none (a software one, too, for
# the tests).
system:
	@missing=""; \
	command -v cc >/dev/null || missing="$$missing build-essential"; \
	ldconfig -p | grep -q libvulkan.so.1 || missing="$$missing libvulkan1"; \
	ls /usr/share/vulkan/icd.d/*.json /etc/vulkan/icd.d/*.json 2>/dev/null | grep -q . || missing="$$missing mesa-vulkan-drivers"; \
	command -v cargo >/dev/null || { echo "Rust is missing: see https://rustup.rs, then run make again" >&2; exit 1; }; \
	if [ -n "$$missing" ]; then \
	  echo "installing:$$missing"; $(APT) update -qq && DEBIAN_FRONTEND=noninteractive $(APT) install -y -qq $$missing >/dev/null; \
	fi

demo: system
	cargo build --release --bin pumex
	tools/demo.sh $(abspath $(or $(CARGO_TARGET_DIR),target))/release/pumex

# The validation layer makes the tests stricter; they run without it too, and say so.
layer: system
	@[ -n "$$(find /usr/share/vulkan/explicit_layer.d -name 'VkLayer_khronos_validation.json' 2>/dev/null)" ] || \
	  { $(APT) update -qq && DEBIAN_FRONTEND=noninteractive $(APT) install -y -qq vulkan-validationlayers; } >/dev/null 2>&1 || \
	  echo "the Khronos validation layer could not be installed; testing without it"

# What is not there is not tested, unless PUMEX_REQUIRE names it (device, shared, layer, clients, page): then its absence fails.
# PUMEX_TEST_ALL=turns has tests take turns at trying all variants, by the commit, as .ci/run does. A test may take LIMIT seconds.
LIMIT ?= 900
TEST = PUMEX_TEST_ALL=$(or $(PUMEX_TEST_ALL),0) tests/limited.sh $(LIMIT) cargo test --no-fail-fast

test: layer
	$(TEST) --workspace

# The same in two parts: all but the tests that use a Vulkan device, and those.
ON_DEVICE = attention:: buffer_limits:: conv2d:: devices:: flash:: foreign_policies:: goldens:: kernel_variants:: kernels:: \
  many_rows:: megakernel:: moe_tiles:: nan_logits:: offload:: passes:: pipelines:: profile:: router:: sample_requests:: \
  selftest:: session:: signed_dots:: subnormal:: synthetic:: tower:: tune:: upload:: vulkan:: on_a_device without_subgroups
test-host: layer
	$(TEST) --workspace -- $(addprefix --skip ,$(ON_DEVICE))

test-device: layer
	$(TEST) --workspace -- $(ON_DEVICE)

test-all: layer
	tests/real_models.sh smollm2 gemma-270m || echo "the real models could not be fetched; they are not tested"
	PUMEX_TEST_ALL=1 tests/limited.sh 3600 cargo test --release --workspace
	cargo test --release -p pumex-cpu --features loom --lib pool::model
	$(MAKE) deny
	$(MAKE) doubles
	$(MAKE) test-python
	$(MAKE) test-c
	$(MAKE) fuzz
	$(MAKE) faults

# Of what differs from the last commit, or from BASE: format, lints, unit tests of the crates, and what the layout demands.
BASE ?= HEAD
CHANGED = $(shell git diff --name-only $(BASE) -- '*.rs'; git ls-files --others --exclude-standard '*.rs')
CRATES = $(sort $(foreach crate,capi chat cli convert cpu dialogue engine gguf grammar hub lower media model plan quant serve \
  server shaders step text vk,$(if $(filter $(crate)/%,$(CHANGED)),pumex-$(crate))) \
  $(if $(filter src/% tests/%,$(CHANGED)),pumex))
check:
	cargo fmt --all --check
	cargo clippy --quiet --workspace --lib --bins -- -D warnings
	$(foreach crate,$(CRATES),cargo test --quiet --lib -p $(crate) &&) true
	$(if $(filter pumex,$(CRATES)),cargo test --quiet --test main -- layout::)

# A minute of each target, with the compiler's help in finding new ways through the code.
FUZZ_SECONDS ?= 60
fuzz:
	@cargo +nightly fuzz --version >/dev/null 2>&1 || { echo "skipped: no cargo-fuzz with a nightly compiler"; exit 0; }; \
	for target in $$(cargo +nightly fuzz list); do \
	  cargo +nightly fuzz run $$target -- -max_total_time=$(FUZZ_SECONDS) -timeout=20 || exit 1; \
	done

# The GLSL compiler is built once (a quarter of an hour on 2 cores; cmake, python3 and a C++ compiler) and kept.
$(SHADERC_DIR)/libshaderc_combined.a:
	@command -v cmake >/dev/null && command -v python3 >/dev/null && command -v c++ >/dev/null || \
	  { $(APT) update -qq; DEBIAN_FRONTEND=noninteractive $(APT) install -y -qq cmake python3 g++ git >/dev/null; }
	cargo build --release -p pumex-build-shaders --features build-shaderc --bin build-shaders
	mkdir -p $(SHADERC_DIR)
	cp "$$(find $${CARGO_TARGET_DIR:-target}/release/build -name libshaderc_combined.a | head -n 1)" $@

shaders: $(SHADERC_DIR)/libshaderc_combined.a
	SHADERC_LIB_DIR=$(SHADERC_DIR) cargo run --release --quiet -p pumex-build-shaders --features shaderc --bin build-shaders -- $(KERNELS)

# That the SPIR-V is what the lock says, and the lock what the sources are; compiles again what was changed.
check-shaders:
	.ci/shaders

check-spirv: $(SHADERC_DIR)/libshaderc_combined.a
	SHADERC_LIB_DIR=$(SHADERC_DIR) cargo run --release --quiet -p pumex-build-shaders --features shaderc --bin build-shaders -- --check $(KERNELS)

# The page needs node to be built, and to be tested.
NODE = cd serve/page && { command -v npm >/dev/null || { $(APT) update -qq; DEBIAN_FRONTEND=noninteractive $(APT) install -y -qq \
  nodejs npm >/dev/null; }; } && timeout 300 npm ci --silent --fetch-retries 1 --fetch-timeout 60000

# What the page is built of, from its registry.
page-packages:
	@$(NODE)

page:
	@$(NODE) && npm run --silent build

# That the committed files are what the sources make.
check-page:
	@$(NODE) && built=$$(mktemp -d) && npx tsc --noEmit && node build.mjs $$built && diff -r dist $$built && rm -r $$built

# PROFILE: which of cargo's the program is built by, release or debug; PUMEX: another program.
PROFILE ?= release
BUILT = $(or $(PUMEX),$(abspath $(or $(CARGO_TARGET_DIR),target))/$(PROFILE)/pumex)
BUILD = $(if $(PUMEX),true,cargo build --quiet $(if $(filter release,$(PROFILE)),--release))
required = case ",$(PUMEX_REQUIRE)," in *,$(1),*) exit 1;; esac

test-page:
	@command -v chromium >/dev/null || \
	  { $(APT) update -qq; DEBIAN_FRONTEND=noninteractive $(APT) install -y -qq chromium >/dev/null; } || \
	  { echo "chromium could not be installed; the page is not tested"; $(call required,page); }
	$(BUILD)
	@($(NODE)) || { echo "the page's packages could not be installed; the page is not tested"; $(call required,page); exit 0; }; \
	  cd serve/page && PUMEX=$(BUILT) npm test --silent

test-clients: system
	$(BUILD)
	PUMEX=$(BUILT) tests/clients/run.sh

# Python's wheel, in WHEELS. PROFILE=debug is for a look at it.
WHEELS ?= $(abspath $(or $(CARGO_TARGET_DIR),target))/wheels
CARGOS = $(if $(filter release,$(PROFILE)),release,dev)
wheel: system
	PROFILE=$(CARGOS) WHEELS=$(WHEELS) python/build.sh

# The wheel in an environment of its own: our tests, and llama-cpp-python's.
test-python: wheel
	WHEELS=$(WHEELS) python/test.sh

# C's library, and programs in C with it.
test-c: system
	cargo build --quiet --profile $(CARGOS) -p pumex-capi
	PUMEX_C_LIBRARY=$(abspath $(or $(CARGO_TARGET_DIR),target))/$(PROFILE) cargo test --quiet --profile $(CARGOS) -p pumex-capi

# C's header, of the library's source.
pumex.h:
	PUMEX_WRITE=1 cargo test --quiet -p pumex-capi -- header

# The documents as a book, target/book/index.html.
docs:
	@command -v mdbook >/dev/null || { echo "mdbook is missing; cargo installs it"; \
	  cargo install --locked --no-default-features --features search mdbook; } || { echo "mdbook could not be installed" >&2; exit 1; }
	@PATH="$$PATH:$(or $(CARGO_HOME),$(HOME)/.cargo)/bin" mdbook build

# Licences, registries and duplicates of other people's crates, by deny.toml.
deny:
	@if cargo deny --version >/dev/null 2>&1; then cargo deny check licenses bans sources; else echo "no cargo-deny; deny.toml is not asked"; fi

# What models give that nothing else computes, in doubles, against what their recipes expect.
doubles:
	@if python3 -c 'import numpy' 2>/dev/null; then python3 tests/doubles/glm5_next.py; else echo "no NumPy; nothing is computed in doubles"; fi

# Deliberate faults, of which a test must see each; FAULTS="part of a name" takes some.
faults: system
	cargo run --release --quiet -p pumex-tools --bin faults -- $(FAULTS)

test-soak: system
	PUMEX_SOAK=1200 cargo test --release --test main -- --nocapture soak
