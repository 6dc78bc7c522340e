#!/bin/sh
# Run the kernel tests for ARM64 under qemu on one CPU of each kind, and check that the tiers meant to be tested
# were there. Needs scripts/setup-aarch64.sh once. Arguments go to cargo test, for example -j1.
set -eu
cd "$(dirname "$0")/.."
eval "$(scripts/setup-aarch64.sh --print-env)"

run() { # CPU, the tiers it has, cargo's arguments
    cpu=$1 tiers=$2
    shift 2
    echo "== $cpu: $tiers"
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu -cpu $cpu"
    set -- --release --target aarch64-unknown-linux-gnu "$@"
    cargo test "$@" -p fura-simd -p fura-quant
    found=$(cargo test "$@" --quiet -p fura-simd --lib -- --nocapture --exact "$reporter" | sed -n 's/^tiers: //p')
    if [ "$found" != "$tiers" ]; then
        echo "test-aarch64: on $cpu the tests covered '$found', expected '$tiers'; see fura-simd/src/isa.rs" >&2
        exit 1
    fi
}

reporter=isa::tests::the_tiers_of_this_cpu_start_with_scalar_ascend_and_are_found_by_name
run cortex-a53 "scalar neon" "$@"
run neoverse-n1 "scalar neon dotprod" "$@"
run max "scalar neon dotprod i8mm" "$@"

# The bench of board owners builds and reaches every tier; its times mean nothing here.
echo "== max: shares"
set -- --release --target aarch64-unknown-linux-gnu "$@"
shares=$(cargo run "$@" -p fura-bench --bin shares -- --rounds 1 threads1 gemm/q8/576x576/rows4)
for tier in neon dotprod i8mm; do
    case $shares in
        *"/$tier/"*) ;;
        *) echo "test-aarch64: shares measured no $tier" >&2; exit 1 ;;
    esac
done
