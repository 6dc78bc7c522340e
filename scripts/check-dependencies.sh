#!/usr/bin/env bash
# Check that every package below fura-core, on any target, is listed in docs/src/dependencies.md.
set -euo pipefail
cd "$(dirname "$0")/.."

page=docs/src/dependencies.md
# Names in tables: words between pipes, commas, colons and spaces.
listed=$(grep '^|' "$page" | tr ',|:;` ' '\n' | sort -u)
tree=$(cargo tree -p fura-core -e normal,build --target all --prefix none | sed 's/ .*//' | sort -u)

missing=0
while read -r package; do
    grep -qxF -- "$package" <<<"$listed" && continue
    [ "$package" = fura-core ] && continue
    echo "check-dependencies: fura-core brings $package, which $page does not list" >&2
    missing=$((missing + 1))
done <<<"$tree"

# A check that finds nothing to check is broken itself.
grep -qx faer <<<"$tree" || { echo "check-dependencies: no faer below fura-core?" >&2; exit 1; }
[ "$missing" -eq 0 ] || exit 1
echo "check-dependencies: $(wc -l <<<"$tree") packages, all listed"
