#!/usr/bin/env bash
# A real Airbyte source fills a lake twice, and the lake is looked at and read. `make demo` makes the environments.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH="$PWD/.venv/bin:$PWD/.cache/venvs/faker/bin:$PATH"

users=${DEMO_USERS:-10000}
lake=demo-lake
work=.cache/demo
rm -rf "$lake" "$work"
mkdir -p "$work"

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
run() { printf '$ %s\n' "$*" && "$@"; }

say "1. What the destination and the source say of themselves"
destination-deeplake spec | python demo/messages.py summary
source-faker spec 2>/dev/null | python demo/messages.py summary

say "2. Configure the lake and the source, and let the source discover its streams"
printf '{"destination_path": "%s"}\n' "$PWD/$lake" >"$work/destination.json"
printf '{"count": %d, "seed": 1, "parallelism": 1}\n' "$users" >"$work/source.json"
run cat "$work/destination.json" "$work/source.json"
run destination-deeplake check --config "$work/destination.json" | python demo/messages.py summary
source-faker discover --config "$work/source.json" 2>/dev/null >"$work/discovered.jsonl"

# One sync: source | destination, with what passes kept beside. $1 = number of the sync, the rest goes to the source.
sync() {
    local number=$1 began ended
    shift
    say "Sync $number: source-faker read${*:+ $*} | destination-deeplake write"
    python demo/messages.py catalog "$number" <"$work/discovered.jsonl" >"$work/catalog.json"
    began=$EPOCHREALTIME
    source-faker read --config "$work/source.json" --catalog "$work/catalog.json" "$@" 2>/dev/null |
        tee "$work/sent-$number.jsonl" |
        destination-deeplake write --config "$work/destination.json" --catalog "$work/catalog.json" \
            >"$work/answered-$number.jsonl"
    ended=$EPOCHREALTIME
    python demo/messages.py rate "${began/,/.}" "${ended/,/.}" <"$work/sent-$number.jsonl"
    python demo/messages.py summary <"$work/answered-$number.jsonl"
}

sync 1
python demo/messages.py state <"$work/answered-1.jsonl" >"$work/state.json"
sync 2 --state "$work/state.json"

say "3. What lies in the lake"
run lakebed ls "./$lake"
run lakebed info "./$lake/users"
run lakebed head "./$lake/users" -n 5 -t id -t name -t age -t occupation -t updated_at -t address
run lakebed log "./$lake/users"

say "4. Read for training: batches of NumPy arrays"
run python demo/batches.py "./$lake/users"

say "5. Photos, labels, boxes and vectors"
demo/photos.sh "$lake"

say "6. The destination alone, with the same messages from a file"
printf '{"destination_path": "%s/replay"}\n' "$PWD/$work" >"$work/replay.json"
began=$EPOCHREALTIME
destination-deeplake write --config "$work/replay.json" --catalog "$work/catalog.json" \
    <"$work/sent-1.jsonl" >"$work/answered-replay.jsonl"
python demo/messages.py rate "${began/,/.}" "${EPOCHREALTIME/,/.}" <"$work/sent-1.jsonl"

say "The lake stays in ./$lake; ./$lake/photos.png shows photos with their boxes. Look at all of it in the browser:"
printf '$ .venv/bin/lakebed view ./%s\n' "$lake"
