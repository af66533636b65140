#!/bin/sh
# An archive of the sources builds in a folder without git: what uses the library, one example and, if asked, the tool.
#   archive.sh FILE.tar.gz [tool]
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tar -xzf "$1" -C "$folder"
cd "$folder"/cleave-*
[ ! -e .git ] && [ -f LICENSE ]

# This git fails, so that nothing can need one.
mkdir "$folder/bin"
printf '#!/bin/sh\necho "git is called with: $*" >> "%s/called"\nexit 1\n' "$folder" > "$folder/bin/git"
chmod +x "$folder/bin/git"
PATH="$folder/bin:$PATH"

run() { "$@" > "$folder/log" 2>&1 || { tail -n 30 "$folder/log" && echo "-- failed: $*" && exit 1; }; }
run cmake -B "$folder/headers" -DCLEAVE_PROGRAMS=OFF -DCMAKE_INSTALL_PREFIX="$folder/prefix"
run cmake --install "$folder/headers"
run cmake -S tests/house/consume -B "$folder/consume" -DCMAKE_PREFIX_PATH="$folder/prefix"
run cmake --build "$folder/consume" --target consumer
run "$folder/consume/consumer"
run cmake --preset release
run cmake --build --preset release --target example_cut_01_split_a_chain
run build/release/bin/example_cut_01_split_a_chain
grep -q 'stage 1: expand gelu, load 80' "$folder/log"
if [ "${2:-}" = tool ]; then
  run ./dev cleave --version
  grep -q '^cleave [0-9]' "$folder/log"
fi
[ ! -e "$folder/called" ] || { cat "$folder/called" && exit 1; }
