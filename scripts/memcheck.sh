#!/bin/sh
# Run the kernels under valgrind's memcheck: an invalid access, or a result that depends on memory that was never
# written, fails. Up to AVX2: valgrind knows no AVX-512 and hides it, so detection finds AVX2 at most. Needs the Debian
# package valgrind. Arguments go to cargo, for example -j1.
set -eu
cd "$(dirname "$0")/.."
command -v valgrind >/dev/null || { echo "memcheck: valgrind is missing; apt-get install valgrind" >&2; exit 1; }

test_binary() { # cargo's arguments: the path of the one test program that they build
    cargo test --release --no-run --message-format=json "$@" | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p'
}
memcheck() { valgrind --quiet --error-exitcode=9 --undef-value-errors=yes "$@"; }

tiers=$(memcheck "$(test_binary -p fura-simd --lib "$@")" --nocapture --exact \
    isa::tests::the_tiers_of_this_cpu_start_with_scalar_ascend_and_are_found_by_name | sed -n 's/.*tiers: //p')
echo "memcheck: tiers under valgrind: $tiers"
if grep -qw avx2 /proc/cpuinfo && [ "$tiers" != "scalar avx2" ]; then
    echo "memcheck: expected 'scalar avx2'" >&2
    exit 1
fi
memcheck "$(test_binary -p fura-simd --lib "$@")" --test-threads=1
# Every rest of rows, outputs, groups and pieces, for every format; large weights run below, since comparing them with the
# scalar kernel takes an hour here.
memcheck "$(test_binary -p fura-quant --test exactness "$@")" --test-threads=1 \
    at_every_number_of_rows every_tier_quantizes_alike a_non_finite_activation
cargo build --release -p fura-bench --bin once "$@"
once=${CARGO_TARGET_DIR:-target}/release/once
case $tiers in
    *avx2*)
        for format in q4 q4-64 q4-128 q4min q4min-64 q4min-128 q8; do
            for bits in 8 16; do
                for rows in 1 3; do memcheck "$once" avx2 "$format" $bits $rows 9100 1152; done
            done
        done ;;
esac
echo "memcheck: clean"
