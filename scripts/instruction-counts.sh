#!/bin/sh
# Count the instructions of one 4096 x 4096 matrix product, for one row and for each row of 24, and print them as a
# Markdown table: AVX2 with valgrind's callgrind, the ARM64 instruction sets with a plugin in qemu. Counts do not
# depend on the machine's load. Needs the Debian package valgrind and scripts/setup-aarch64.sh once. Arguments go to
# cargo build, for example -j1.
set -eu
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
size=4096 rows=24
formats="q4 q4-64 q4-128 q4min q4min-64 q4min-128 q8"

say() { echo "instruction-counts: $*" >&2; }
command -v valgrind >/dev/null || { say "valgrind is missing; apt-get install valgrind"; exit 1; }
command -v qemu-aarch64 >/dev/null || { say "qemu-aarch64 is missing; run scripts/setup-aarch64.sh"; exit 1; }

cargo build --release -p fura-bench --bin once "$@" >&2
rustc --edition 2024 -O --crate-type cdylib -o "$target/libqemu_count.so" scripts/qemu_count.rs
plugin=$(cd "$target" && pwd)/libqemu_count.so
x86=$target/release/once
(
    eval "$(scripts/setup-aarch64.sh --print-env)"
    CARGO_TARGET_DIR=$target/aarch64 cargo build --release --target aarch64-unknown-linux-gnu -p fura-bench --bin once "$@" >&2
)
arm=$target/aarch64/aarch64-unknown-linux-gnu/release/once

count() { # tier, format, bits, rows: instructions in the tier's kernels
    case $1 in
        avx2)
            valgrind --tool=callgrind --callgrind-out-file=/dev/null \
                --toggle-collect='fura_quant::kernel::avx2::multiply*' "$x86" "$1" "$2" "$3" "$4" $size $size 2>&1 |
                sed -n 's/.*Collected : *//p' ;;
        neon) in_qemu 6kernel4neon "$@" ;;
        dotprod) in_qemu 6kernel12neon_dotprod "$@" ;;
        i8mm) in_qemu 6kernel9neon_i8mm "$@" ;;
    esac
}

in_qemu() { # a part of the symbols to count in, tier, format, bits, rows
    qemu-aarch64 -L /usr/aarch64-linux-gnu -cpu max -plugin "$plugin,in=$1" "$arm" "$2" "$3" "$4" "$5" $size $size 2>&1 |
        sed -n 's/^counted //p'
}

echo "| tier | format | one row | per multiply | each of $rows rows | per multiply |"
echo "|---|---|--:|--:|--:|--:|"
for tier in avx2 neon dotprod i8mm; do
    for what in $formats "q8 16"; do
        format=${what% *} bits=8
        [ "$what" = "$format" ] || bits=${what#* }
        # Products of one multiply instruction: vpmaddubsw or vpmaddwd, smull or smlal, sdot, smmla. A single row is sdot's
        # for i8mm, but not if its codes have 16 bits. Those are two bytes to multiply on ARM64.
        case $tier$bits in
            avx28) one=32 many=32 ;;
            avx216) one=16 many=16 ;;
            neon8) one=8 many=8 ;;
            neon16) one=4 many=4 ;;
            dotprod8) one=16 many=16 ;;
            dotprod16) one=8 many=8 ;;
            i8mm8) one=16 many=32 ;;
            i8mm16) one=16 many=16 ;;
        esac
        single=$(count $tier "$format" $bits 1)
        several=$(count $tier "$format" $bits $rows)
        [ "${single:-0}" -gt 0 ] && [ "${several:-0}" -gt 0 ] || { say "nothing counted for $tier $what"; exit 1; }
        [ $bits = 8 ] || format="$format, 16-bit activations"
        awk -v t=$tier -v f="$format" -v a="$single" -v b="$several" -v n=$rows -v macs=$((size * size)) -v p=$one -v q=$many \
            'BEGIN { printf "| %s | %s | %d | %.2f | %d | %.2f |\n", t, f, a, a * p / macs, b / n, b / n * q / macs }'
    done
done
