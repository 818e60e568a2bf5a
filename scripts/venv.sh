#!/usr/bin/env bash
# Make a virtual environment, or add packages to one.
#
#   scripts/venv.sh [--python '>=3.10,<3.13'] [--rebuild NAME] DIR [argument of `pip install`]...
#
# --rebuild NAME builds that project again although its version is the same, as pip does anyway for a path.
# uv does the work when it is on PATH, or is fetched once into .cache/uv; pip does it where uv cannot be had
# or UV=no is set. PYTHON names the interpreter for environments without a --python range of their own.
set -euo pipefail
export UV_COMPILE_BYTECODE=1 # a connector starts often, and not everywhere may write caches

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
range='>=3.11,<3.15'
rebuild=()
while [[ $1 == --* ]]; do
    case $1 in
        --python) range=$2 ;;
        --rebuild) rebuild=(--reinstall-package "$2") ;;
        *) echo "unknown option $1" >&2 && exit 2 ;;
    esac
    shift 2
done
dir=$1
shift

# The first interpreter on PATH whose version lies in the range; empty if there is none.
find_python() {
    local candidate version
    for candidate in ${PYTHON:-} python3 python3.12 python3.11 python3.13 python3.14 python3.10; do
        version=$("$candidate" -c 'import sys; print(*sys.version_info[:2])' 2>/dev/null) || continue
        if in_range $version; then
            command -v "$candidate"
            return
        fi
    done
}

# Whether major.minor lies in a range such as '>=3.10,<3.13'.
in_range() {
    local low=${range#>=3.} high=${range##*<3.}
    low=${low%%,*}
    [[ $1 -eq 3 && $2 -ge $low && $2 -lt $high ]]
}

# A uv that knows dependency groups: the one on PATH, or one of our own.
find_uv() {
    [[ ${UV:-} == no ]] && return 1
    local candidate
    for candidate in uv "$root/.cache/uv/bin/uv"; do
        if "$candidate" pip install --help 2>/dev/null | grep -q -- --group; then
            echo "$candidate"
            return
        fi
    done
    [[ -n $python ]] || return 1
    {
        "$python" -m venv "$root/.cache/uv" && "$root/.cache/uv/bin/pip" install -q uv
    } >&2 || return 1
    echo "$root/.cache/uv/bin/uv"
}

python=$(find_python)
uv=$(find_uv) || uv=
if [[ -z $python && -z $uv ]]; then
    echo "$dir needs Python $range, and none is on PATH: install one, or uv, which fetches it" >&2
    exit 1
fi

if [[ -n $uv ]]; then
    [[ -x $dir/bin/python ]] || "$uv" venv -q --python "${python:-$range}" "$dir"
    [[ $# -eq 0 ]] || "$uv" pip install -q --python "$dir/bin/python" ${rebuild[@]+"${rebuild[@]}"} "$@"
else
    if [[ ! -x $dir/bin/python ]]; then
        "$python" -m venv "$dir"
        "$dir/bin/python" -m pip install -q --upgrade 'pip>=25.1'
    fi
    [[ $# -eq 0 ]] || "$dir/bin/python" -m pip install -q "$@"
fi
