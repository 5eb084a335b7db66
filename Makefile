# Terrace. The two commands of the README are `make demo` and `make test`.

.PHONY: demo test lint bench docs fuzz deb conformance clean

# Runs the lab: machines of tenants communicate through the gateway. Prints the reachability between them and exits. It builds only the
# core, without the emulated switch, its solver and the flow caches.
demo:
	@scripts/setup demo
	cargo build --profile demo --locked -p terrace --no-default-features
	@cargo run --profile demo --locked --quiet -p terrace --no-default-features -- demo

# Clippy checks the workspace's crates while they are compiled for the tests, because a separate check with all dependencies would take a
# third more time.
LINTED := RUSTC_WORKSPACE_WRAPPER="$$(rustc --print sysroot)/bin/clippy-driver" CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings

# Half of the tests wait for packets, so two for each core run at a time.
export RUST_TEST_THREADS ?= $(shell echo $$((2 * $$(nproc))))

# Test programs that mostly wait for packets and processes; they run beside all others.
WAITING := lab_scenario clients
OTHERS := $(filter-out $(WAITING),$(sort $(basename $(notdir $(wildcard */*/tests/*.rs))) \
  $(notdir $(patsubst %/main.rs,%,$(wildcard */*/tests/*/main.rs)))))

# Runs all checks of a change. Needs root for the lab's network namespaces.
test:
	@scripts/setup test
	@cargo fetch --locked --quiet   # for all platforms, because a test checks every licence offline
	cargo fmt --all --check
	$(LINTED) cargo test --workspace --locked --bench gateway --no-run   # not compiled by the next line
	$(LINTED) cargo test --workspace --locked --no-run
	@mkdir -p target
	@echo "beside the other tests run $(WAITING), whose output comes last"
	@$(LINTED) cargo test --workspace --locked --no-fail-fast $(WAITING:%=--test %) >target/waiting-tests.log 2>&1 & waiting=$$!; \
	  $(LINTED) cargo test --workspace --locked --no-fail-fast --lib --bins $(OTHERS:%=--test %) && \
	  $(LINTED) cargo test --workspace --locked --doc; result=$$?; \
	  wait $$waiting || result=1; cat target/waiting-tests.log; exit $$result

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

# Runs all measurements; docs/journal/2026-11-performance.md describes them, and target/bench has the results. ONLY=overlay,lookups runs a
# subset of lookups, updates, overlay, state, services, workers, memif, switches, compile, criterion. QUICK=1 tests that all of them run. Run it as root for
# huge pages. The report starts with the omitted measurements. A missed bar is an error.
ONLY ?=
QUICK ?=
BENCH_FLAGS ?=
bench:
	cargo build --release --locked -p terrace -p bench
	@mkdir -p target/bench/programs
	@for program in overlay gateway nat; do \
	  target/release/terrace compile programs/$$program/$$program.p4 -o target/bench/programs/$$program.ir || exit 1; \
	done
ifneq (,$(if $(ONLY),$(findstring criterion,$(ONLY)),all))
	cargo bench --locked -p testkit --bench gateway $(if $(QUICK),-- --quick)
	cargo run --release --locked -q -p testkit --example load_region -- $(if $(QUICK),10000,1000000)
endif
	@# The last command, because its exit code reports missed bars.
	target/release/bench $(if $(ONLY),--only $(ONLY)) $(if $(QUICK),--quick) $(BENCH_FLAGS)

# Builds the documentation as a searchable book in target/docs. Tests check links and anchors.
MDBOOK := 0.5.4
docs:
	@test -x target/tools/bin/mdbook || cargo install mdbook --version $(MDBOOK) --locked --root target/tools
	target/tools/bin/mdbook build docs
	@echo "open target/docs/index.html"

# Runs each fuzz target for FUZZ_SECONDS; needs cargo-fuzz. RUSTC_BOOTSTRAP enables sanitizers, a nightly feature, in the stable toolchain.
FUZZ_SECONDS ?= 600
FUZZ_TARGETS ?= p4_source preprocessor ir_text region_file packets jit_packets p4runtime_write
fuzz:
	cargo run --locked -q -p testkit --example fuzz_seeds -- fuzz/seeds
	TERRACE_FUZZ_SEEDS=$(CURDIR)/fuzz/seeds/p4runtime_write cargo test --locked -q -p p4runtime --test write_path seeds
	@for target in $(FUZZ_TARGETS); do \
	  mkdir -p fuzz/corpus/$$target; \
	  RUSTC_BOOTSTRAP=1 cargo fuzz run --fuzz-dir fuzz $$target fuzz/corpus/$$target fuzz/seeds/$$target -- \
	    -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=4096 -max_len=65536 || exit 1; \
	done

# Builds the Debian package in target/deb; docs/how-to/install.md lists its contents. Needs dpkg-dev; libdpdk-dev enables DPDK ports.
deb:
	cargo build --release --locked -p terraced -p terrace
	packaging/deb $(or $(CARGO_TARGET_DIR),target)/release target/deb

# Runs p4c's tests; P4C is a checkout of p4lang/p4c.
conformance:
	cargo xtask conformance --p4c $(P4C)

clean:
	cargo clean
