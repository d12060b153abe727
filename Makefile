# Everything a user or developer does here, each with its own set-up. `make help` lists it.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
CARGO ?= cargo
PORT ?= 11211
FUZZ_SECONDS ?= 60
SOAK_MINUTES ?= 10
RUNS ?= 200
SEED ?= 1
RUN_SECONDS ?= 20
LAB ?= all
# Tests that start programs wait most of the time, so more of them run at once than there are processors.
TEST_THREADS ?= 4
target := $(or $(CARGO_TARGET_DIR),target)

# What the tests need beside Rust: the command that must be there, and Debian's package that brings it.
tools := git:git cc:build-essential curl:curl openssl:openssl ip:iproute2 memcached:memcached memccapable:libmemcached-tools mariadb:mariadb-client mariadb-install-db:mariadb-server pg_ctlcluster:postgresql python3:python3-venv \
	dnsmasq:dnsmasq-base nutcracker:nutcracker etcd:etcd-server etcdctl:etcd-client \
	valgrind:valgrind systemd-analyze:systemd go:golang-go node:nodejs npm:npm javac:default-jdk-headless mvn:maven

.PHONY: help run test lint fuzz soak faults crashes linearizable model miri bench performance count lab dist setup tools clients smoke fresh-debian

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

run: ## build, and start the cache on 127.0.0.1:11211 (PORT=n for another port)
	$(CARGO) build --release --bin guira
	@echo
	@echo "guira serves on 127.0.0.1:$(PORT). In another terminal:"
	@echo "    $(target)/release/guira set -s 127.0.0.1:$(PORT) hello world"
	@echo "    $(target)/release/guira get -s 127.0.0.1:$(PORT) hello"
	@echo "or point any memcached client at that address. Ctrl-C ends it."
	@echo
	exec $(target)/release/guira serve -l 127.0.0.1 -p $(PORT) $$([ "$$(id -u)" = 0 ] && echo "-u root")

test: setup ## everything: unit tests, laws, the real binary beside memcached, torture, real clients
	$(CARGO) build --workspace --bins --tests
	tests/again --check
	GUIRA_BIN=$(abspath $(target))/debug/guira RUST_TEST_THREADS=$(TEST_THREADS) \
		tests/again $(CARGO) test --workspace --no-fail-fast
	tests/clients/run

lint: ## format, clippy with warnings denied (guira-filter without std too), documentation without warnings
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) clippy -p guira-filter --no-default-features -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps

smoke: ## the quick start of the README, on a free port, in seconds
	$(CARGO) build --release --bin guira
	tests/smoke $(target)/release/guira

fresh-debian: ## the commands of README.md and docs/start in a fresh Debian (root, debootstrap)
	$(CARGO) build --bin guira
	tests/fresh-debian $(target)/debug/guira

clients: ## real clients on memcached and on guira
	$(CARGO) build --bin guira
	tests/clients/run

fuzz: ## fuzz each target for FUZZ_SECONDS (60); installs cargo-fuzz the first time
	command -v cargo-fuzz > /dev/null || $(CARGO) install --locked cargo-fuzz
	for name in $$(cd fuzz/fuzz_targets && ls *.rs | grep -v '^canary'); do \
		RUSTC_BOOTSTRAP=1 $(CARGO) fuzz run "$${name%.rs}" -- -max_total_time=$(FUZZ_SECONDS) \
			-dict=fuzz/memcached.dict; \
	done

soak: ## full load and connection churn for SOAK_MINUTES (10): resident memory grows by less than 1 %
	$(CARGO) build --release --bin guira
	tests/soak $(target)/release/guira $(SOAK_MINUTES)

faults: ## kill, freeze, cut off and delay one of five servers behind guira route (4 minutes, as root)
	$(CARGO) build --release --bin guira
	tests/faults/run $(target)/release/guira || [ $$? = 77 ]

model: ## all interleavings of the lock-free parts (loom), and proof that the models catch mistakes
	@mkdir -p $(target); export RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$(target)/loom \
		CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16; \
	$(CARGO) test --release -p guira-cache -p guira-index -p guira-filter -p guira-store -p guira-chain --lib models -- --nocapture \
		> $(target)/models.txt 2> $(target)/models.err \
		|| { tail -60 $(target)/models.err; cat $(target)/models.txt; exit 1; }; \
	grep -E '^test |executions|caught' $(target)/models.txt; \
	caught=$$(grep -cE 'caught after|catches.* ok$$' $(target)/models.txt); \
	echo "models: $$caught planted mistakes were caught"; [ "$$caught" -ge 70 ]

# Weak-memory emulation is off: with it Miri itself fails on memory that is plain bytes in one life and an
# atomic in the next, which is what a reused chunk is. Loom covers the orderings.
miri: ## the unit tests of index, cache and filter under Miri: undefined behaviour, data races (nightly)
	rustup component add --toolchain nightly miri rust-src
	MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-disable-weak-memory-emulation" RUST_BACKTRACE=0 \
		$(CARGO) +nightly miri test -p guira-index -p guira-cache -p guira-filter --lib

crashes: ## kill -9 under load and restart, 200 times (guira serve -e, guira store): never a wrong byte
	$(CARGO) build --release --bin guira
	GUIRA_BIN=$(abspath $(target))/release/guira $(CARGO) test --release -p guira-tests --test serve -- --ignored restart::
	GUIRA_CRASHES=200 $(CARGO) test --package guira-tests --test store keep::a_kill_under_load -- --nocapture
	$(CARGO) test --release --package guira-store --test crash --test power -- --ignored --skip child

linearizable: ## record RUNS (200) histories of a replicated store under faults and check each; SEED=n, RUN_SECONDS=20
	$(CARGO) build --release --bin guira
	GUIRA_RUNS=$(RUNS) GUIRA_SEED=$(SEED) GUIRA_RUN_SECONDS=$(RUN_SECONDS) \
		tests/linearizability/run $(abspath $(target))/release/guira

bench: ## the index in process, then guira beside memcached over a socket, and its router beside nutcracker
	$(CARGO) bench -p guira-index
	tests/bench-beside $(target)/release/guira
	tests/bench-route $(target)/release/guira

performance: ## write the tables of docs/performance.md and README's figures, from one build in one run (10 minutes)
	$(CARGO) build --release --bin guira
	$(CARGO) build --release -p guira-bench --example floor
	tests/performance $(target)/release/guira $(target)/release/examples/floor --write

count: setup ## instructions per request, by callgrind, beside those of tests/count/expected.txt: at most 2 % more or less
	$(CARGO) build --release --bin guira
	tests/count/run $(target)/release/guira

lab: ## the papers' experiments with their checks, under 30 minutes (LAB=quick: seconds, LAB=hop-load: one); lab/report.md
	$(CARGO) build --release --bin guira
	$(target)/release/guira lab run $(LAB) --scale small --check
	$(target)/release/guira lab report

dist: ## a stripped release binary with unit files, dashboard and alert rules, in target/dist
	$(CARGO) build --release --bin guira
	rm -rf $(target)/dist && mkdir -p $(target)/dist/guira
	cp $(target)/release/guira packaging/systemd/*.service packaging/grafana/dashboard.json \
		packaging/prometheus/alerts.yaml README.md LICENSE-MIT LICENSE-APACHE \
		$(target)/dist/guira/
	strip $(target)/dist/guira/guira
	tar -C $(target)/dist -czf $(target)/dist/guira.tar.gz guira
	@ls -l $(target)/dist/guira.tar.gz

setup: # installs what the tests need where that can be done, and says what is missing where not
	@missing=; for pair in $(tools); do \
		command -v "$${pair%:*}" > /dev/null || missing="$$missing $${pair#*:}"; \
	done; \
	/usr/bin/python3 -c 'import venv, ensurepip' 2> /dev/null || missing="$$missing python3-venv"; \
	[ -z "$$missing" ] && exit 0; \
	echo "missing for the tests:$$missing"; \
	as_root=; [ "$$(id -u)" = 0 ] || as_root="sudo -n"; \
	if command -v apt-get > /dev/null && { [ -z "$$as_root" ] || $$as_root true 2> /dev/null; }; then \
		$$as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q; \
		$$as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
			apt-get install -q -y --no-install-recommends $$missing; \
	else \
		echo "install them yourself:  sudo apt-get install$$missing"; \
		command -v memcached > /dev/null || exit 1; \
	fi
