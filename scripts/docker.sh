#!/usr/bin/env bash
# A Docker engine for `make image` and `make test-image`: the one that runs already, or one of our own.
#
#   scripts/docker.sh find     print its address; status 1 and the reason where there is none
#   scripts/docker.sh start    the same, but start one where we may: as root on a Debian, installed by apt if need be
#   scripts/docker.sh stop     stop the one that `start` started
#   scripts/docker.sh build NAME [BASE]
#                              start, and build the connector's image on BASE; without one on Airbyte's, or, where no
#                              registry answers, on one made of this machine's own Python (scripts/docker-base.sh)
#
# Looked at in this order: DOCKER_HOST, /var/run/docker.sock, ours in DOCKER_FOLDER (default /var/tmp/connector-docker).
# Ours has neither bridge nor firewall rules: containers have no network unless they are given the machine's own.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=${DOCKER_FOLDER:-/var/tmp/connector-docker}
ours=unix://$folder/docker.sock
airbyte=$(sed -n 's/^ARG BASE_IMAGE=//p' "$here/../Dockerfile")
made=localhost/python-connector-base:made

say() { echo "$*" >&2; }
answers() { DOCKER_HOST=$1 timeout 20 docker version >/dev/null 2>&1; }

# The address of an engine that answers; status 1 and the reason if there is none.
find_engine() {
    command -v docker >/dev/null || { say "no Docker here: there is no docker command" && return 1; }
    if [[ -n ${DOCKER_HOST:-} ]]; then
        answers "$DOCKER_HOST" && echo "$DOCKER_HOST" && return
        say "no Docker here: nothing answers at DOCKER_HOST=$DOCKER_HOST" && return 1
    fi
    local address
    for address in unix:///var/run/docker.sock "$ours"; do
        answers "$address" && echo "$address" && return
    done
    say "no Docker here: no engine answers; scripts/docker.sh start starts one where it may" && return 1
}

install() {
    [[ $(id -u) == 0 ]] || { say "no Docker here, and only root may start one" && return 1; }
    PATH=$PATH:/usr/sbin command -v dockerd >/dev/null && return
    command -v apt-get >/dev/null || { say "no Docker here, and no apt-get to install it" && return 1; }
    say "installing docker.io"
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -q && apt-get install -y -q --no-install-recommends docker.io; } >"$folder/apt.log" 2>&1 ||
        { say "docker.io could not be installed, see $folder/apt.log" && return 1; }
}

start() {
    local found
    found=$(find_engine 2>/dev/null) && echo "$found" && return
    [[ -z ${DOCKER_HOST:-} ]] || { find_engine || return 1; }
    mkdir -p "$folder"
    install || return 1
    say "starting a Docker engine in $folder"
    PATH=$PATH:/usr/sbin setsid nohup dockerd --host "$ours" --pidfile "$folder/docker.pid" \
        --data-root "$folder/data" --exec-root "$folder/exec" --bridge none --userland-proxy=false \
        --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false \
        >"$folder/dockerd.log" 2>&1 </dev/null &
    for _ in $(seq 150); do
        answers "$ours" && echo "$ours" && return
        sleep 0.2
    done
    say "the engine does not start:" && tail -5 "$folder/dockerd.log" >&2
    return 1
}

stop() {
    [[ -s $folder/docker.pid ]] || return 0
    kill "$(<"$folder/docker.pid")" 2>/dev/null || return 0
    for _ in $(seq 100); do
        [[ -e $folder/docker.pid ]] || return 0
        sleep 0.1
    done
    say "the engine in $folder does not stop" && return 1
}

# The image to build on.
base() {
    docker image inspect "$airbyte" >/dev/null 2>&1 && echo "$airbyte" && return
    timeout 300 docker pull -q "$airbyte" >/dev/null 2>&1 && echo "$airbyte" && return
    if ! docker image inspect "$made" >/dev/null 2>&1; then
        say "no registry gives $airbyte: making a base image of this machine's Python"
        "$here/docker-base.sh" | docker import \
            --change 'ENV PATH=/usr/local/bin:/usr/sbin:/usr/bin LANG=C.UTF-8' --change 'WORKDIR /airbyte' - "$made" >/dev/null
    fi
    echo "$made"
}

build() {
    local name=$1 base=${2:-} host options=()
    host=$(start)
    export DOCKER_HOST=$host
    [[ -n $base ]] || base=$(base)
    [[ $host != "$ours" ]] || options=(--network host) # it has no other
    docker build --build-arg BASE_IMAGE="$base" ${options[@]+"${options[@]}"} --tag "$name" "$here/.."
}

case ${1:-} in
    find) find_engine ;;
    start | stop) "$1" ;;
    build) build "${@:2}" ;;
    *) sed -n '2,13p' "${BASH_SOURCE[0]}" >&2 && exit 2 ;;
esac
