#!/usr/bin/env bash
# Build the compiled core with AddressSanitizer and UndefinedBehaviorSanitizer, outside of the source tree, and fuzz it.
#   scripts/sanitize.sh [SECONDS] [FIRST]       CPU seconds in all (default 300), number of the first mutation
set -euo pipefail
cd "$(dirname "$0")/.."
python=$PWD/.venv/bin/python
build=${SANITIZE_BUILD:-.cache/sanitized}
mkdir -p "$build"
build=$(cd "$build" && pwd)

# The Python half is copied, not linked: the compiled modules lie beside it.
rm -rf "$build/lakebed" "$build/destination_deeplake"
cp -r format/lakebed destination_deeplake "$build"
find "$build/lakebed" "$build/destination_deeplake" \( -name '*.so' -o -name __pycache__ \) -prune -exec rm -rf {} +
suffix=$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
include=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
directives=$("$python" -c 'import runpy; print(",".join(f"{name}={value}" for name, value in runpy.run_path("format/setup.py")["DIRECTIVES"].items()))')
flags=(-O1 -g -fPIC -shared -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all -w)
for source in ext/*/native/*.pyx format/ext/*/native/*.pyx; do
  name=$(basename "$source" .pyx)
  package=$(basename "$(dirname "$(dirname "$source")")")
  "$python" -m cython -X "$directives" -I "${source%%ext/*}ext" "$source" -o "$build/$name.c"
  gcc "${flags[@]}" -I"$include" -I"${source%%ext/*}ext" "$build/$name.c" -o "$build/$package/native/$name$suffix"
done

rm -rf "$build/golden"
tar -xJf unit_tests/data/golden-3.9.52.tar.xz -C "$build"
echo "fuzzing the sanitized core in $build for ${1:-300} CPU seconds"
LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" \
  ASAN_OPTIONS=detect_leaks=0:abort_on_error=0:allocator_may_return_null=1:halt_on_error=1 \
  UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
  PYTHONMALLOC=malloc PYTHONPATH="$build:$PWD" "$python" ext/fuzz/run.py "$build/golden" "${1:-300}" "${2:-0}"
