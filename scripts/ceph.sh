#!/usr/bin/env bash
# A Ceph cluster of one monitor and one OSD in memory, with a RADOS gateway that speaks S3, on loopback.
#
#   scripts/ceph.sh FOLDER PORT MON_PORT    start it; returns when it answers
#   scripts/ceph.sh --stop FOLDER           stop it
#
# Keys: lakebedaccess / lakebedsecret. Debian's packages ceph-mon ceph-osd ceph-mgr radosgw hold all that it takes.
set -euo pipefail

stop() {
    local folder=$1 file
    for file in gateway osd mon; do
        [[ -s $folder/$file.pid ]] && kill "$(<"$folder/$file.pid")" 2>/dev/null || true
    done
    for file in gateway osd mon; do
        [[ -s $folder/$file.pid ]] || continue
        for _ in $(seq 10); do
            kill -0 "$(<"$folder/$file.pid")" 2>/dev/null || break
            sleep 0.1
        done
        kill -9 "$(<"$folder/$file.pid")" 2>/dev/null || true
    done
}

if [[ $1 == --stop ]]; then
    stop "$2"
    exit
fi

folder=$(realpath -m "$1")
port=$2
mon=v1:127.0.0.1:$3
mkdir -p "$folder"/{mon,osd,run,log}
export CEPH_CONF=$folder/ceph.conf CEPH_ARGS=
trap 'stop "$folder"' ERR

cat >"$CEPH_CONF" <<CONF
[global]
    fsid = $(</proc/sys/kernel/random/uuid)
    mon host = $mon
    mon initial members = a
    ms bind msgr2 = false
    public addr = 127.0.0.1
    public network = 127.0.0.0/8
    auth cluster required = none
    auth service required = none
    auth client required = none
    run dir = $folder/run
    admin socket = $folder/run/\$name.asok
    log file = $folder/log/\$name.log
    mon data = $folder/mon/a
    mon data avail crit = 1
    mon data avail warn = 1
    mon allow pool size one = true
    mon max pg per osd = 2000
    osd data = $folder/osd/0
    osd objectstore = memstore
    memstore device bytes = 4294967296
    osd pool default size = 1
    osd pool default min size = 1
    osd pool default pg num = 1
    osd pool default pgp num = 1
    osd pool default pg autoscale mode = off
    osd crush chooseleaf type = 0
    osd crush update on start = false
    osd class update on start = false
    osd class load list = *
    osd class default list = *

[client.gateway]
    rgw frontends = beast endpoint=127.0.0.1:$port tcp_nodelay=1
    rgw enable apis = s3, sts, iam, admin
    rgw s3 auth use sts = true
    rgw sts key = lakebedstskey123
    rgw enable usage log = false
    rgw dynamic resharding = false
    rgw gc max objs = 1
    rgw data log num shards = 1
    rgw usage max shards = 1
    rgw thread pool size = 64
CONF

# start NAME COMMAND...: in the background, apart from the terminal, its process id in NAME.pid
start() {
    local name=$1
    shift
    setsid nohup "$@" >"$folder/log/$name.out" 2>&1 </dev/null &
    echo $! >"$folder/$name.pid"
}

# until_true COMMAND...: try for a minute
until_true() {
    for _ in $(seq 300); do
        "$@" >/dev/null 2>&1 && return
        sleep 0.2
    done
    echo "no success within a minute: $*" >&2
    return 1
}

fsid=$(awk '/fsid/ { print $3 }' "$CEPH_CONF")
monmaptool --create --clobber --fsid "$fsid" --addv a "[$mon]" "$folder/monmap" >/dev/null
ceph-mon -i a --mkfs --monmap "$folder/monmap" >"$folder/log/mkfs.mon" 2>&1
start mon ceph-mon -i a -f

ceph=(ceph --connect-timeout 30)
osd=$(</proc/sys/kernel/random/uuid)
# A monitor that has just begun answers some questions with EPERM; all of these may be asked twice.
tell() { until_true "${ceph[@]}" "$@"; }
tell osd new "$osd" 0
mkdir -p "$folder/osd/0"
ceph-osd -i 0 --mkfs --osd-uuid "$osd" >"$folder/log/mkfs.osd" 2>&1
start osd ceph-osd -i 0 -f
tell osd crush add-bucket here host
tell osd crush move here root=default
tell osd crush add osd.0 1.0 host=here
is_up() { "${ceph[@]}" osd stat | grep -q '1 up'; }
until_true is_up

start gateway radosgw -n client.gateway -f
answers() { (echo >"/dev/tcp/127.0.0.1/$port"); }
until_true answers
radosgw-admin -n client.gateway user create --uid=lakebed --display-name=lakebed \
    --access-key=lakebedaccess --secret=lakebedsecret --caps='roles=*' >/dev/null 2>"$folder/log/user.out"
