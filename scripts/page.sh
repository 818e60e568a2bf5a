#!/usr/bin/env bash
# Where node is: check the sources of the viewer's page, run their tests, and hold the page against what they give.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../format/lakebed/viewer/web"

if ! command -v npm >/dev/null || ! npm ci --no-audit --no-fund --loglevel=error; then
	echo "the viewer's page was not compared with its sources: no node here, or no packages for it"
	exit
fi
npx svelte-check --tsconfig ./tsconfig.json --fail-on-warnings
npx tsc -p reader
npx tsc -p query
npx vitest run --reporter=dot
there=$(mktemp -d)
trap 'rm -rf "$there"' EXIT
npx vite build --logLevel=warn --outDir "$there" --emptyOutDir
if ! diff -rq "$there" dist; then
	echo "the viewer's page is not what its sources give: run make viewer, and commit dist" >&2
	exit 1
fi
echo "the viewer's page is what its sources give"
