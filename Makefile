# SPDX-License-Identifier: GPL-2.0-or-later
#
# What a person types. Every target says what it does, may be repeated, and
# sets up what it needs: `make demo` and `make check` work on a fresh Debian.
#
# QEMU_SRC=DIR or LINUX_SRC=DIR takes a source tree that you already have.

.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
SECONDS ?= 600
.PHONY: install uninstall libvirt setup-libvirt help setup fetch qemu guest programs demo check \
	check-thorough qtest kunit guest-deb docs lint stock-facts mutate fuzz bench bench-page \
	bench-kernels bench-reclaim bench-churn bench-overhead bench-memhog bench-latency bench-scale \
	bench-nogain bench-compaction bench-device-cost bench-guest-latency clean steer steer-tests deb fuzz-steer \
	bench-steer-scale
# In the order they run in; each is bench/NAME.py.
BENCHES = reclaim churn overhead memhog latency guest_latency scale nogain device_cost

help:
	@echo 'virtio-balloon report delay: the host chooses how soon guests hand memory back'
	@echo
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 28
	@echo
	@echo 'Start with make demo. Products are in build/, sources and ccache in ~/.cache/report-delay.'

setup: ## install the Debian packages that are missing (root or sudo)
	@scripts/setup

fetch: setup ## get QEMU's and Linux's sources as Debian packages
	@scripts/fetch

qemu: setup ## build QEMU:          build/qemu/qemu-system-x86_64
	@scripts/build qemu

guest: programs ## build the guests:     build/guest/6.12/bzImage, 7.3, initramfs.cpio.gz
	@scripts/build kernel 6.12
	@scripts/build kernel 7.3

programs: setup
	@scripts/build programs

demo: qemu programs ## boot a guest, steer it, see its memory come back
	@scripts/build kernel 6.12
	@scripts/demo

check: qemu guest steer-tests ## all tests and lint; ends with: N passed, N failed
	@scripts/check

check-thorough: qemu guest steer-tests ## the long ones too: debug kernel, other builds
	@scripts/build qemu-stock
	@scripts/build qemu-other
	@scripts/build qemu-fuzz
	@scripts/setup cross
	@scripts/build kernel 6.12 trace
	@scripts/build kernel-stock 6.12 numa
	@for series in 6.12 7.3; do \
		scripts/build kernel $$series debug module && \
		scripts/build kernel $$series numa && \
		scripts/build kernel-stock $$series && \
		scripts/build kernel-stock $$series debug module || exit 1; \
	done
	@scripts/check --thorough

qtest: qemu ## the device's own tests
	@scripts/check qtest

guest-deb: qemu programs ## Debian's cloud kernel 6.12 with the series, as a package (an hour)
	@scripts/setup deb
	@scripts/build guest-deb
	@python3 tests/guest/test_guest_deb.py

kunit: qemu guest ## the guest kernels' own tests, in booted kernels
	@scripts/check kunit

docs: setup ## the pages as HTML:    build/docs/index.html
	@sphinx-build -q -W --keep-going -b html docs build/docs

libvirt: qemu guest ## the tests through libvirt, short and long
	@scripts/check --thorough libvirt

check check-thorough libvirt: setup-libvirt

setup-libvirt: setup
	@scripts/setup libvirt

install: ## QEMU and balloon-steer to DESTDIR, prefix: /opt/report-delay; make qemu first
	@DESTDIR='$(DESTDIR)' prefix='$(prefix)' scripts/install

uninstall: ## take away what make install has put there
	@DESTDIR='$(DESTDIR)' prefix='$(prefix)' scripts/install --uninstall

lint: qemu ## checkpatch, round trip of the series, shellcheck, codespell, ...
	@scripts/lint

mutate: qemu ## take each hunk of the QEMU patches away: does a test notice?
	@scripts/mutate --write

fuzz: setup ## SECONDS=N: QEMU's fuzzer on the balloon, with ASan and UBSan
	@scripts/fuzz $(SECONDS)

bench: bench-kernels steer ## all of the below and docs/benchmarks.rst of it (42 minutes, 14 GiB free)
	@failed=; for name in $(BENCHES); do bench/$$name.py || failed="$$failed $$name"; done; \
		bench/page.py; [ -z "$$failed" ] || { echo "bench: failed:$$failed" >&2; exit 1; }

bench-page: ## docs/benchmarks.rst of the CSVs that are in bench/results
	@bench/page.py

bench-reclaim: bench-kernels ## how soon 10 GiB are back, stock and ours (14 GiB free)
	@bench/reclaim.py

bench-churn: qemu guest steer ## fixed delays and balloon-steer under a guest that churns
	@bench/churn.py

bench-overhead: bench-kernels ## page faults by the instruction, stock and patched
	@bench/overhead.py

bench-memhog: bench-kernels ## fill and exit again and again, NUMA too
	@bench/memhog.py

bench-latency: qemu guest setup-libvirt ## from command to answer and report, QMP and libvirt
	@bench/latency.py

bench-scale: qemu guest steer ## balloon-steer over 1 to 1000 QEMUs, real and played
	@bench/scale.py

bench-compaction: qemu guest ## pins where only CMA is free, stock and ours (5 minutes)
	@scripts/build kernel 7.3 numa
	@for kind in kernel-stock kernel; do \
		scripts/build $$kind 6.12 numa && scripts/build $$kind 6.12 numa node-reclaim || exit 1; \
	done
	@bench/compaction.py

bench-nogain: qemu guest ## where the delay does not matter
	@bench/nogain.py

bench-device-cost: qemu ## discards a second, stock and ours
	@scripts/build qemu-stock
	@bench/device_cost.py

bench-guest-latency: qemu guest ## from interrupt to answer and to report, by the guest's clock
	@scripts/build kernel 6.12 trace
	@bench/guest_latency.py

bench-kernels: qemu guest setup-libvirt
	@scripts/build qemu-stock
	@scripts/build kernel 6.12 trace
	@scripts/build kernel 6.12 numa
	@scripts/build kernel-stock 6.12
	@scripts/build kernel-stock 7.3

stock-facts: qemu ## record what a balloon of unpatched QEMU looks like
	@scripts/build qemu-stock
	@tests/qemu/facts.py --record build/qemu-stock/qemu-system-x86_64

steer: setup ## build balloon-steer: build/steer/balloon-steer
	@scripts/build programs

steer-tests: setup
	@scripts/build steer

deb: setup ## Debian packages:      build/deb/*.deb
	@scripts/setup deb
	@scripts/deb

fuzz-steer: setup ## SECONDS=N: fuzz what balloon-steer reads, with ASan and UBSan
	@scripts/setup fuzz
	@test -d build/fuzz-steer || CC=clang meson setup build/fuzz-steer -Dguest_programs=false \
		-Dsteer_fuzz=true -Db_sanitize=address,undefined -Db_lundef=false >/dev/null
	@for target in psi qmp config; do \
		ninja -C build/fuzz-steer --quiet steer/fuzz/fuzz-$$target && \
		mkdir -p build/fuzz-steer/corpus-$$target && \
		build/fuzz-steer/steer/fuzz/fuzz-$$target -max_total_time=$(SECONDS) \
			-artifact_prefix=build/fuzz-steer/ build/fuzz-steer/corpus-$$target || exit 1; done

bench-steer-scale: steer ## 1000 fake QEMUs, none and 100 of them hostile
	@for hostile in 0 100; do \
		build/steer/bench-scale build/steer/balloon-steer 1000 $$hostile 50 60 60 || exit 1; done

clean: ## remove build/; sources and ccache stay
	rm -rf build
