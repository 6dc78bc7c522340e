#!/usr/bin/env bash
# Compare `fura bench` with llama.cpp's llama-bench and llama-batched-bench on the same file, threads and workloads, run
# by turns, and print a table of medians and of the median of the ratios of neighbouring runs (fura over llama.cpp, so
# more than 1 is faster). llama.cpp is built first (scripts/build-llama-cpp.sh); the Q4_0 file is made of the Q4_1 file
# with its llama-quantize.
#
# usage: scripts/compare-llama-cpp.sh [--folder FOLDER] [--rounds N] [--threads "1 2"] [--sequences 1,8,64]
#                                     [--builds "native avx2"] [--types "Q4_0 Q4_1"] [--save FILE] [--load FILE]...
# --save adds every measurement to a file (JSON Lines); --load takes earlier ones into the table (with --rounds 0 alone).
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${CARGO_TARGET_DIR:-target}/llama.cpp
rest=()
while [ $# -gt 0 ]; do
    case $1 in
        --folder) folder=$2; shift 2 ;;
        *) rest+=("$1"); shift ;;
    esac
done
scripts/build-llama-cpp.sh "$folder" >&2
model=$(scripts/fetch-smollm2.sh)
q4_0=$folder/SmolLM2-135M-Instruct.Q4_0.gguf
[ -f "$q4_0" ] || "$folder/native/bin/llama-quantize" --allow-requantize "$model" "$q4_0" Q4_0 >&2
cargo build --release -p fura -j 2 >&2
exec python3 scripts/compare_llama_cpp.py --llama "$folder" --fura "${CARGO_TARGET_DIR:-target}/release/fura" \
    --packs models-cache --model "Q4_1=$model" --model "Q4_0=$q4_0" "${rest[@]}"
