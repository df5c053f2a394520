# Two commands: `make demo` and `make test`. `make test-all` tries every variant instead of a sample, `make test-page` and
# `make test-clients` try the server with a browser and with other programs' clients, `make test-soak` for 20 minutes; `make shaders`
# and `make page` are for those who change GLSL, or the page.
SHADERC_DIR ?= $(HOME)/.cache/pumex/shaderc-0.10.1
APT = $(if $(filter 0,$(shell id -u)),,sudo) apt-get

.PHONY: demo test test-all test-page test-clients test-soak shaders check-shaders page page-packages check-page system

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
	cargo build --release --quiet
	cargo run --release --quiet -- run -p "In the beginning" -n 64 --temp 0

# The validation layer makes the tests stricter; they run without it too, and say so.
# PUMEX_TEST_ALL=turns has cases take turns at the variants, as .ci/run does.
test test-all: VARIED = $(if $(filter test-all,$@),1,$(or $(PUMEX_TEST_ALL),0))
test test-all: system
	@[ -n "$$(find /usr/share/vulkan/explicit_layer.d -name 'VkLayer_khronos_validation.json' 2>/dev/null)" ] || \
	  { $(APT) update -qq && DEBIAN_FRONTEND=noninteractive $(APT) install -y -qq vulkan-validationlayers; } >/dev/null 2>&1 || \
	  echo "the Khronos validation layer could not be installed; testing without it"
	PUMEX_TEST_ALL=$(VARIED) cargo test --release --workspace
	$(if $(filter-out 0,$(VARIED)),cargo test --release -p pumex-cpu --features loom --lib pool::model)

# The GLSL compiler is built once (a quarter of an hour on 2 cores; cmake, python3 and a C++ compiler) and kept.
$(SHADERC_DIR)/libshaderc_combined.a:
	@command -v cmake >/dev/null && command -v python3 >/dev/null && command -v c++ >/dev/null || \
	  { $(APT) update -qq; DEBIAN_FRONTEND=noninteractive $(APT) install -y -qq cmake python3 g++ git >/dev/null; }
	cargo build --release -p pumex-build-shaders --features build-shaderc --bin build-shaders
	mkdir -p $(SHADERC_DIR)
	cp "$$(find $${CARGO_TARGET_DIR:-target}/release/build -name libshaderc_combined.a | head -n 1)" $@

shaders: $(SHADERC_DIR)/libshaderc_combined.a
	SHADERC_LIB_DIR=$(SHADERC_DIR) cargo run --release --quiet -p pumex-build-shaders --features shaderc --bin build-shaders -- $(KERNELS)

check-shaders: $(SHADERC_DIR)/libshaderc_combined.a
	SHADERC_LIB_DIR=$(SHADERC_DIR) cargo run --release --quiet -p pumex-build-shaders --features shaderc --bin build-shaders -- --check

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

test-page:
	@command -v chromium >/dev/null || \
	  { $(APT) update -qq; DEBIAN_FRONTEND=noninteractive $(APT) install -y -qq chromium >/dev/null; } || \
	  echo "chromium could not be installed; the page is not tested"
	cargo build --release --quiet
	@$(NODE) && npm test --silent

test-clients: system
	cargo build --release --quiet
	tests/clients/run.sh

test-soak: system
	PUMEX_SOAK=1200 cargo test --release --test main -- --nocapture soak
