# Terrace. The two commands of the README are `make demo` and `make test`.

.PHONY: demo test lint bench fuzz deb conformance clean

# The lab: tenants' machines talk through the gateway; prints who reached whom, and ends by itself. It is the core alone: without the
# emulated switch, its solver, and the flow caches.
demo:
	@scripts/setup demo
	cargo build --profile demo --locked -p terrace --no-default-features
	@cargo run --profile demo --locked --quiet -p terrace --no-default-features -- demo

# Clippy looks at the workspace's crates while they are compiled for the tests: to check all of it apart, dependencies included, would take a third
# of the time more.
LINTED := RUSTC_WORKSPACE_WRAPPER="$$(rustc --print sysroot)/bin/clippy-driver" CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings

# Everything that decides whether a change is good. Needs root for the lab's network namespaces.
test:
	@scripts/setup test
	@cargo fetch --locked --quiet   # of all platforms: a test looks at every licence, without a network
	cargo fmt --all --check
	$(LINTED) cargo test --workspace --locked --bench gateway --no-run   # what the next line leaves out
	$(LINTED) cargo test --workspace --locked

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

# All measurements side by side, in one run: docs/performance.md says how, and target/bench has the results. ONLY=overlay,lookups runs
# some of lookups, updates, overlay, workers, memif, switches, compile, criterion; QUICK=1 looks whether all of it works. Best as root, for huge pages.
# What is left out stands at the top; a bar that was measured and missed is an error.
ONLY ?=
QUICK ?=
BENCH_FLAGS ?=
bench:
	cargo build --release --locked -p terrace -p bench
	@mkdir -p target/bench/programs
	@for program in overlay gateway; do \
	  target/release/terrace compile programs/$$program/$$program.p4 -o target/bench/programs/$$program.ir || exit 1; \
	done
ifneq (,$(if $(ONLY),$(findstring criterion,$(ONLY)),all))
	cargo bench --locked -p testkit --bench gateway $(if $(QUICK),-- --quick)
	cargo run --release --locked -q -p testkit --example load_region -- $(if $(QUICK),10000,1000000)
endif
	@# The last, as its exit code says whether a bar was missed that was measured.
	target/release/bench $(if $(ONLY),--only $(ONLY)) $(if $(QUICK),--quick) $(BENCH_FLAGS)

# Each fuzz target for FUZZ_SECONDS; needs cargo-fuzz. Sanitizers are nightly's: RUSTC_BOOTSTRAP lets the stable toolchain have them.
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

# The Debian package, in target/deb: docs/install.md says what is in it. Needs dpkg-dev; with libdpdk-dev ports can be DPDK's.
deb:
	cargo build --release --locked -p terraced -p terrace
	packaging/deb $(or $(CARGO_TARGET_DIR),target)/release target/deb

# p4c's own tests; P4C is a checkout of p4lang/p4c.
conformance:
	cargo xtask conformance --p4c $(P4C)

clean:
	cargo clean
