#!/usr/bin/env bash
# Photos, labels and vectors come out of an Airbyte source as base64, addresses and numbers, and are looked at.
# `make demo` runs it at its end; alone: demo/photos.sh [LAKE], in the environment of `make env`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH="$PWD/.venv/bin:$PATH"

lake=${1:-demo-lake}
work=.cache/demo/photos
rm -rf "$lake/photos" "$work"
mkdir -p "$lake" "$work"
say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
run() { printf '$ %s\n' "$*" && "$@"; }

# The web server that the addresses lead to: any free port, which it prints.
python -u -m http.server --bind 127.0.0.1 --directory demo/photos 0 >"$work/server" 2>&1 &
server=$!
trap 'kill $server' EXIT
until port=$(grep -som1 'port [0-9]*' "$work/server"); do
    kill -0 $server # it has ended, and says why in $work/server
    sleep 0.1
done

say "Base64 becomes images, addresses linked images, texts class labels, arrays boxes and vectors"
printf '{"base_url": "http://127.0.0.1:%s"}\n' "${port#port }" >"$work/source.json"
cat >"$work/destination.json" <<JSON
{
  "destination_path": "$PWD/$lake",
  "streams": [{"name": "photos", "columns": [
    {"column": "photo", "decoding": "base64", "htype": "image", "sample_compression": "jpeg"},
    {"column": "photo_url", "tensor": "linked", "decoding": "url", "htype": "image"},
    {"column": "kind", "htype": "class_label"},
    {"column": "boxes", "htype": "bbox", "shape": [0, 4]},
    {"column": "colours", "htype": "embedding", "dtype": "float32", "shape": [64]}
  ]}]
}
JSON
run cat "$work/destination.json"
python demo/photo_source.py discover --config "$work/source.json" >"$work/discovered.jsonl"
python demo/messages.py catalog 1 <"$work/discovered.jsonl" >"$work/catalog.json"
python demo/photo_source.py read --config "$work/source.json" --catalog "$work/catalog.json" |
    destination-deeplake write --config "$work/destination.json" --catalog "$work/catalog.json" |
    python demo/messages.py summary

run lakebed info "$lake/photos"
run lakebed head "$lake/photos" -n 4 -t photo -t kind -t objects -t boxes -t colours
say "Links are followed to public addresses only; a server of this machine has to be named"
run env LAKEBED_LINK_HOSTS="127.0.0.1:${port#port }" python demo/look.py "$lake/photos" "$lake/photos.png"
