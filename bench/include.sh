#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures the compile time of files that use the library, and prints a table.
#   bench/include.sh [HEADER...]     headers: preprocessed lines (exact) and CPU seconds (best of five);
#                                    by default cleave.hpp and the header of each part
#   bench/include.sh --use [FILE...] programs, with g++: CPU seconds (best of three) at -O0 and at -O2, and at
#                                    -O0 with cleave::compiled; functions in the object; by default some of the examples
set -euo pipefail
cd "$(dirname "$0")/.."
compilers=()
for c in g++ clang++-16 clang++-19; do command -v "$c" >/dev/null && compilers+=("$c"); done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

least_user_seconds() {  # OPTIONS… FILE; leaves the object in $work/a.o
  local best="" t
  for _ in 1 2 3; do
    t=$( { TIMEFORMAT=%U; time g++ -std=c++20 -w -Iinclude -c "$@" -o "$work/a.o"; } 2>&1)
    if [ -z "$best" ] || awk "BEGIN { exit !($t < $best) }"; then best=$t; fi
  done
  printf '%.2f' "$best"
}

if [ "${1-}" = --use ]; then
  shift
  [ $# -gt 0 ] || set -- examples/cut/01_split_a_chain.cpp examples/cut/06_split_by_callback.cpp \
    examples/adapt/01_adapt_your_ir.cpp examples/partition/01_k_parts_of_a_graph.cpp
  printf '| program | preprocessed lines | -O0, s | functions | -O2, s | -O0 with cleave::compiled, s | functions |\n|---|---|---|---|---|---|---|\n'
  for file in "$@"; do
    printf '| %s | %d' "${file#examples/}" "$(g++ -std=c++20 -E -P -Iinclude "$file" | wc -l)"
    printf ' | %s' "$(least_user_seconds -O0 "$file")" "$(nm "$work/a.o" | grep -c ' [WTtu] ')"
    printf ' | %s' "$(least_user_seconds -O2 "$file")"
    printf ' | %s' "$(least_user_seconds -O0 -DCLEAVE_COMPILED "$file")" "$(nm "$work/a.o" | grep -c ' [WTtu] ')"
    printf ' |\n'
  done
  exit
fi

headers=("$@")
[ $# -gt 0 ] || headers=(cleave.hpp core/error.hpp graph/concepts.hpp graph/snapshot.hpp graph/module_graph.hpp
                         partition/slices/balance.hpp split/split.hpp run/forward/forward.hpp draw/report.hpp)
least_seconds() {  # COMPILER FILE
  local best="" t
  for _ in 1 2 3 4 5; do
    t=$( { TIMEFORMAT='%U %S'; time "$1" -std=c++20 -O0 -w -Iinclude -c "$2" -o "$work/a.o" 2>"$work/errors"; } 2>&1 | awk '{ printf "%.2f", $1 + $2 }')
    if [ -z "$best" ] || awk "BEGIN { exit !($t < $best) }"; then best=$t; fi
  done
  echo "$best"
}

printf '| `#include` | preprocessed lines (%s)' "${compilers[0]}"
for c in "${compilers[@]}"; do printf ' | %s, s' "$c"; done
printf ' |\n|---|---'
for c in "${compilers[@]}"; do printf '|---'; done
printf '|\n'
printf '#include <ranges>\n' >"$work/ranges.cpp"
for h in "<ranges>" "${headers[@]}"; do
  if [ "$h" = "<ranges>" ]; then file=$work/ranges.cpp; else
    [ -f "include/cleave/$h" ] || continue
    file=$work/user.cpp
    printf '#include "cleave/%s"\nint main() {}\n' "$h" >"$file"
  fi
  printf '| %s | %d' "$h" "$(g++ -std=c++20 -E -P -Iinclude "$file" | wc -l)"
  for c in "${compilers[@]}"; do printf ' | %s' "$(least_seconds "$c" "$file")"; done
  printf ' |\n'
done
