#!/usr/bin/env bash
# Build llama.cpp's measuring tools twice, for this machine (native) and for AVX2 only, in a folder outside the
# sources, and print where they are. The sources are those in the PyPI package llama-cpp-python of the version below.
# Needs Python 3 with venv and a C++ compiler; cmake and ninja come with pip. Does nothing that is done already.
#
# usage: scripts/build-llama-cpp.sh [FOLDER]     (default: target/llama.cpp)
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.3.36
sum=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e

folder=${1:-${CARGO_TARGET_DIR:-target}/llama.cpp}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
say() { echo "build-llama-cpp: $*" >&2; }

sdist=$folder/llama_cpp_python-$version.tar.gz
source=$folder/llama_cpp_python-$version/vendor/llama.cpp
tools=$folder/venv/bin
if [ ! -x "$tools/ninja" ]; then
    say "fetching cmake and ninja with pip"
    python3 -m venv "$folder/venv"
    "$tools/pip" install --quiet --disable-pip-version-check cmake ninja scikit-build-core >&2
fi
if [ ! -f "$sdist" ]; then
    say "fetching llama-cpp-python $version (77 MB) with pip"
    PATH=$tools:$PATH "$tools/pip" download --quiet --disable-pip-version-check --no-deps --no-binary :all: \
        --no-build-isolation --dest "$folder" llama-cpp-python==$version >&2
fi
if [ ! -d "$source" ]; then
    echo "$sum  $sdist" | sha256sum --check --quiet || { say "$sdist has another SHA-256; delete it"; exit 1; }
    tar -xzf "$sdist" -C "$folder" "llama_cpp_python-$version/vendor/llama.cpp"
fi

# GCC 12 drops the stores to the tile configuration before they are loaded, so that every prefill of the native build
# dies of an illegal instruction; a barrier keeps them. Nothing else is changed.
amx=$source/ggml/src/ggml-cpu/amx/mmq.cpp
barrier='__asm__ volatile("" ::: "memory");'
if ! grep -qF "$barrier _tile_loadconfig(&tc);" "$amx"; then
    sed -i "s/^\( *\)_tile_loadconfig(&tc);/\1$barrier _tile_loadconfig(\&tc);/" "$amx"
    grep -qF "$barrier _tile_loadconfig(&tc);" "$amx" || { say "$amx: no tile configuration found"; exit 1; }
fi

build() { # name, targets, cmake options
    local name=$1 targets=$2
    shift 2
    say "building $name (some minutes)"
    PATH=$tools:$PATH cmake -S "$source" -B "$folder/$name" -G Ninja -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_BUILD_RPATH_USE_ORIGIN=ON -DGGML_CCACHE=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_SERVER=OFF \
        -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_USE_PREBUILT_UI=OFF "$@" \
        >"$folder/$name.log" 2>&1 || { say "cmake failed; see $folder/$name.log"; exit 1; }
    # shellcheck disable=SC2086
    PATH=$tools:$PATH nice cmake --build "$folder/$name" -j 2 --target $targets >>"$folder/$name.log" 2>&1 ||
        { say "the build failed; see $folder/$name.log"; exit 1; }
}
if [ ! -f "$folder/made" ]; then
    build native "llama-bench llama-batched-bench llama-perplexity llama-quantize" -DGGML_NATIVE=ON
    # Only the library of CPU kernels depends on the instruction set; the rest is the native build's.
    build avx2 ggml-cpu -DGGML_NATIVE=OFF -DGGML_SSE42=ON -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON \
        -DGGML_F16C=ON -DGGML_BMI2=ON
    for file in "$folder"/native/bin/*; do
        case $file in */libggml-cpu.so*) ;; *) cp -P "$file" "$folder/avx2/bin/" ;; esac
    done
    touch "$folder/made"
fi
echo "$folder/native/bin"
echo "$folder/avx2/bin"
