#!/usr/bin/env bash
# Install a Swift compiler in a folder, beside the packages of the system, and run commands there.
#
#     tools/swift.sh FOLDER                  # install it, by debootstrap and as root, and say what to export
#     tools/swift.sh FOLDER COMMAND ...      # run a command there; paths count from the present folder, absolute ones from FOLDER
#
# Debian has Swift since release 13, which is what FOLDER becomes.
set -euo pipefail
# debootstrap and chroot are here, where the PATH of a user does not lead.
PATH="$PATH:/usr/sbin:/sbin"

install() {
    local as_root=()
    [ "$(id -u)" -eq 0 ] || as_root=(sudo)
    if ! command -v debootstrap >/dev/null; then
        echo "error: debootstrap, which makes a Debian in a folder, was not found" >&2
        echo "hint:  sudo apt-get install debootstrap" >&2
        exit 2
    fi
    "${as_root[@]}" debootstrap --variant=minbase --include=swiftlang,libc6-dev,libstdc++-14-dev trixie "$root"
    "${as_root[@]}" mkdir -p "$root/host"
    "${as_root[@]}" find "$root/var/cache/apt" -name '*.deb' -delete
}

# The compiler looks for its parts by /proc. The files of the machine are below /host.
run() {
    local map=(--map-root-user)
    [ "$(id -u)" -ne 0 ] || map=()
    # shellcheck disable=SC2016
    exec unshare --mount "${map[@]}" sh -euc '
        mount --rbind /proc "$0/proc"
        mount --rbind / "$0/host"
        root=$0 user=$1
        shift
        exec chroot "$root" /usr/bin/env -i PATH=/usr/bin:/bin "HOME=/tmp/$user" LANG=C.UTF-8 \
            sh -euc "cd \"/host\$0\"; exec \"\$@\"" "$@"' "$root" "$(id -u)" "$PWD" "$@"
}

root=$1
shift
if [ "$#" -gt 0 ]; then
    run "$@"
fi
[ -x "$root/usr/bin/swiftc" ] || install
root=$(cd "$root" && pwd)
echo "export SWIFT_RUNNER='bash $(cd "$(dirname "$0")" && pwd)/swift.sh $root'"
