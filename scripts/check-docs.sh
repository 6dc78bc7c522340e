#!/usr/bin/env bash
# Check that every relative link in the project's Markdown files leads to a file, and that every page of the book is
# in its table of contents, and that the tests that the table of faults names exist. Links inside fenced code are text, not
# links.
set -euo pipefail
cd "$(dirname "$0")/.."

pages() { find . \( -name target -o -name models-cache -o -name .git \) -prune -o -name '*.md' -print; }

links() { # file: its link targets, inline and by reference
    awk '/^[ \t]*(```|~~~)/ { code = !code; next } !code' "$1" | sed 's/`[^`]*`//g' |
        { grep -oE '\]\([^) ]+|^\[[^]]+\]: *[^ ]+' || true; } | sed -E 's/^\]\(//; s/^\[[^]]+\]: *//'
}

broken=0
checked=0
fail() { echo "check-docs: $*" >&2; broken=$((broken + 1)); }

while read -r page; do
    while read -r target; do
        case $target in
            http://* | https://* | mailto:* | \#*) continue ;;
        esac
        checked=$((checked + 1))
        [ -e "$(dirname "$page")/${target%%#*}" ] || fail "$page: link to '$target', which does not exist"
    done < <(links "$page")
done < <(pages)

while read -r page; do
    name=${page#docs/src/}
    [ "$name" = SUMMARY.md ] || grep -qF "($name)" docs/src/SUMMARY.md || fail "$page: not in docs/src/SUMMARY.md"
done < <(find docs/src -name '*.md')

tests=0
existing=$(grep -rhoE --include='*.rs' '^ *fn [a-z0-9_]+' fura* tests | sed 's/.* //' | sort -u)
while read -r name; do
    tests=$((tests + 1))
    grep -qxF -- "$name" <<<"$existing" || fail "docs/src/faults.md: there is no test '$name'"
done < <(grep -E '^\| [A-Z][0-9]+ ' docs/src/faults.md | grep -oE '`[a-z0-9_]+_[a-z0-9_]+`' | tr -d '`' | sort -u)

# A check that finds nothing to check is broken itself.
[ "$checked" -gt 0 ] || fail "no relative link found in any page"
[ "$tests" -gt 0 ] || fail "no test named in docs/src/faults.md"
[ "$broken" -eq 0 ] || exit 1
echo "check-docs: $checked relative links, all lead somewhere; $tests tests of faults, all there"
