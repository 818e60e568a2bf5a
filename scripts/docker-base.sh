#!/usr/bin/env bash
# Write a root file system as a tar to standard output: Debian's essential packages and apt as they are on this machine,
# and the Python that PYTHON names (default python3) in /usr/local. `docker import` makes a base image of it.
#
# It stands in for Airbyte's Python connector base where no registry can be asked: a user `airbyte` with id 1000, the
# folder /airbyte, no compiler. This machine's certificates and pip settings go along, so that a build reaches what this
# machine reaches.
set -euo pipefail

python=${PYTHON:-python3}
prefix=$("$python" -c 'import sys; print(sys.base_prefix)')
version=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
[[ $prefix != /usr ]] || { echo "a Python of its own is needed; that of Debian's packages is in /usr" >&2 && exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root"/{airbyte,dev,etc/ssl/certs,home,proc,root,run,sys,tmp,usr/{bin,lib,lib64,sbin,local/{bin,lib}},var/tmp}
mkdir -p "$root"/var/{cache/apt/archives/partial,lib/{apt/lists/partial,dpkg/info}}
chmod 1777 "$root/tmp" "$root/var/tmp"
for name in bin lib lib64 sbin; do ln -s "usr/$name" "$root/$name"; done

# --- Debian: the essential packages, what Python's modules link to, and all that these need ---
mapfile -t wanted < <(dpkg-query -W -f '${Package} ${Essential}\n' | awk '$2 == "yes" { print $1 }')
wanted+=(apt ca-certificates debian-archive-keyring gpgv libbz2-1.0 libexpat1 libffi8 liblzma5 libnsl2 libreadline8
    libsqlite3-0 libssl3 libuuid1 mawk netbase passwd tzdata zlib1g)
installed() { dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null | awk '$1 == "installed" { print $2 }'; }
mapfile -t packages < <(
    apt-cache depends --recurse --installed --no-{recommends,suggests,conflicts,breaks,replaces,enhances} \
        "${wanted[@]}" 2>/dev/null |
        grep -E '^[a-z0-9]' | cut -d: -f1 | sort -u | xargs bash -c "$(declare -f installed); installed \"\$@\"" _ | sort -u
)
dpkg-query -s "${packages[@]}" >"$root/var/lib/dpkg/status"
for package in "${packages[@]}"; do
    cp -a /var/lib/dpkg/info/"$package"{,:*}.* "$root/var/lib/dpkg/info/" 2>/dev/null || true # some have an architecture
    dpkg -L "$package"
done | sort -u | grep -vE '^/\.$|^/usr/share/(doc|info|lintian|locale|man)/' |
    while IFS= read -r file; do
        if [[ -e $file || -L $file ]]; then printf '%s\n' "${file#/}"; fi
    done >"$work/files"
# What dpkg knows as /bin/x lies in /usr/bin; targets of links stay what they are. Alternatives are in no package.
find /etc/alternatives -type l | cut -c2- >>"$work/files"
tar -C / -c --no-recursion -T "$work/files" --transform 'flags=rh;s,^\(bin\|lib\|lib64\|sbin\)/,usr/\1/,' |
    tar -C "$root" -x
for link in awk which; do cp -a "/usr/bin/$link" "$root/usr/bin/"; done
cp -a /etc/apt/sources.list* "$root/etc/apt/"
cp -L /etc/os-release /etc/debian_version "$root/etc/"
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
[[ ! -f /etc/pip.conf ]] || cp /etc/pip.conf "$root/etc/"

# --- users ---
cp /usr/share/base-passwd/passwd.master "$root/etc/passwd"
cp /usr/share/base-passwd/group.master "$root/etc/group"
sed -i 's/:\*:/:x:/' "$root/etc/passwd" "$root/etc/group"
cut -d: -f1 "$root/etc/passwd" | sed 's/$/:*:20000:0:99999:7:::/' >"$root/etc/shadow"
cut -d: -f1 "$root/etc/group" | sed 's/$/:*::/' >"$root/etc/gshadow"
chmod 640 "$root"/etc/{,g}shadow
echo 'airbyte:x:1000:1000::/home/airbyte:/bin/sh' >>"$root/etc/passwd"
echo 'airbyte:x:1000:' >>"$root/etc/group"
mkdir "$root/home/airbyte"
chown 1000:1000 "$root"/{airbyte,home/airbyte}

# --- Python, without its tests, its desktop parts and other people's packages ---
tar -C "$prefix" -c --exclude=__pycache__ --exclude='*.a' \
    --exclude="lib/$version/"{test,site-packages,idlelib,tkinter,turtledemo,'lib-dynload/_tkinter*','config-*'} \
    "bin/$version" include lib |
    tar -C "$root/usr/local" -x
ln -s "$version" "$root/usr/local/bin/python3"
ln -s "$version" "$root/usr/local/bin/python"
echo /usr/local/lib >"$root/etc/ld.so.conf"
ldconfig -r "$root"
chroot "$root" /usr/local/bin/python -m ensurepip --default-pip >/dev/null 2>&1

tar -C "$root" -c --numeric-owner .
