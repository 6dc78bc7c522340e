#!/bin/sh
# Make `cargo test --target aarch64-unknown-linux-gnu` work on an x86-64 Debian 12, as root. Does nothing if it is
# all there; otherwise about 185 MB of Debian packages and a minute. rustup stays first on PATH and untouched:
# Debian's compiler runs only where RUSTC names it.
#
#   setup-aarch64.sh               compiler, aarch64 std, cross linker and qemu, then a self-test
#   setup-aarch64.sh --clippy      also the clippy-driver of that compiler
#   setup-aarch64.sh --mca         also the LLVM tools of that compiler, for cycle estimates
#   setup-aarch64.sh --print-env   only print the environment: eval "$(scripts/setup-aarch64.sh --print-env)"
set -eu

target=aarch64-unknown-linux-gnu
std=/usr/lib/rustlib/$target
packages="rustc-web gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"
oldest=1.95

print_env() {
    cat <<'ENV'
export RUSTC=/usr/bin/rustc
export RUSTDOC=/usr/bin/rustdoc
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target/aarch64}"
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu -cpu ${ARM_CPU:-max}"
ENV
}

for option in "$@"; do
    case $option in
        --clippy) packages="$packages rust-web-clippy" ;;
        --mca) packages="$packages llvm-22" ;;
        --print-env) print_env; exit 0 ;;
        *) echo "setup-aarch64: unknown option $option; see the head of this file" >&2; exit 2 ;;
    esac
done

say() { echo "setup-aarch64: $*" >&2; }
# `rustc --emit=metadata -o /dev/null` as root replaces the device by a file, and apt then fails its signature
# checks with a message about gpgv.
if [ ! -c /dev/null ]; then
    say "/dev/null is not a device; run: mknod -m 666 /dev/null.new c 1 3 && mv -f /dev/null.new /dev/null"
    exit 1
fi

version() { dpkg-query -W -f='${db:Status-Status} ${Version}\n' "$1" 2>/dev/null | sed -n 's/^installed //p'; }
all_installed() { for p in $packages; do [ -n "$(version "$p")" ] || return 1; done; }
# An rlib belongs to one exact compiler, so the std is unpacked again when an update moves the compiler.
std_matches() { [ -n "$(version rustc-web)" ] && [ "$(cat "$std/.deb-version" 2>/dev/null)" = "$(version rustc-web)" ]; }
apt() { apt-get -qq -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 "$@"; }

# Only the rlibs of the arm64 std are wanted: installing that package would bring 18 arm64 packages and upgrade
# seven of the machine's own.
unpack_std() {
    work=$(mktemp -d)
    chmod 755 "$work"
    chown _apt "$work" 2>/dev/null || true
    (cd "$work" && apt download "libstd-rust-web-dev:arm64=$1" && dpkg-deb -x ./*.deb all)
    echo "$1" >"$work/all$std/.deb-version"
    mkdir -p "$(dirname "$std")"
    rm -rf "$std"
    mv "$work/all$std" "$std"
    rm -rf "$work"
}

if all_installed && std_matches; then
    say "already set up: rustc-web $(version rustc-web)"
else
    export DEBIAN_FRONTEND=noninteractive
    dpkg --print-foreign-architectures | grep -qx arm64 || dpkg --add-architecture arm64
    apt update
    say "installing $packages"
    # shellcheck disable=SC2086
    apt install -y --no-install-recommends $packages >/dev/null
    found=$(version rustc-web)
    if ! dpkg --compare-versions "$found" ge $oldest; then
        say "rustc-web $found is older than $oldest; add the security suite to the apt sources"
        exit 1
    fi
    std_matches || unpack_std "$found"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/probe.rs" <<'RS'
fn main() {
    assert!(std::arch::is_aarch64_feature_detected!("dotprod"));
    assert!(std::panic::catch_unwind(|| std::hint::black_box(None::<u8>).unwrap()).is_err());
}
RS
/usr/bin/rustc --edition 2024 -O --target $target -C linker=aarch64-linux-gnu-gcc -o "$work/probe" "$work/probe.rs"
if ! qemu-aarch64 -L /usr/aarch64-linux-gnu -cpu max "$work/probe" 2>/dev/null; then
    say "a compiled program does not run under qemu-aarch64; run it by hand to see why"
    exit 1
fi
say "self-test ok ($(/usr/bin/rustc -V))"
