#!/usr/bin/env bash
# Install the wheels of dist/ in a Debian that has Python and no compiler, and take the first steps of the README there.
#
#   scripts/debian.sh [SUITE [MIRROR]]
#
# Needs root, debootstrap, and a wheel for the Python of that suite. The machine's settings of pip and its certificates
# apply.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

root=$(mktemp -d /var/tmp/debian-XXXXXX)
trap 'umount -q "$root/proc" || true; rm -rf --one-file-system "$root"' EXIT
debootstrap --variant=minbase --include=python3-venv,ca-certificates "${1:-stable}" "$root" "${@:2}" >"$root/log" ||
    { tail "$root/log" && exit 1; }
mount --bind /proc "$root/proc"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
cp /etc/resolv.conf "$root/etc/"
[[ ! -e /etc/pip.conf ]] || cp /etc/pip.conf "$root/etc/"
cp dist/*.whl README.md integration_tests/wheels/smoke.py "$root/srv/"
sed -n '/^```python/,/^```$/{/^```/d;p}' README.md >"$root/srv/readme.py"

chroot "$root" env -u PYTHONPATH -u PIP_FIND_LINKS HOME=/srv LANG=C.UTF-8 PATH=/srv/venv/bin:/usr/bin:/bin bash -eu <<'END'
cd
command -v cc gcc clang && exit 1
python3 -m venv venv
TIMEFORMAT="pip install lakebed: %0R s, %0U s of CPU"
time pip install -q --only-binary :all: --find-links . lakebed
python -W error readme.py
lakebed verify birds --deep
lakebed backup birds backups
pip install -q --only-binary :all: --find-links . 'lakebed[view]' destination-deeplake
python -I smoke.py lakebed destination-deeplake
lakebed view birds --no-browser >address &
until grep -qs http address; do
    sleep 0.2
    kill -0 $!
done
python -c "import urllib.request as r; assert b'lakebed' in r.urlopen(open('address').readline().strip()).read()"
kill $!
wait $! || true
echo "Debian $(cat /etc/debian_version), $(python -V): the first steps of the README work without a compiler"
END
