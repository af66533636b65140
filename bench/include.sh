#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What including the library costs a user's file: preprocessed lines (exact) and CPU seconds to compile (least of five).
#   bench/include.sh [HEADER...]        by default cleave.hpp and the header of each part
set -euo pipefail
cd "$(dirname "$0")/.."
compilers=()
for c in g++ clang++-16 clang++-19; do command -v "$c" >/dev/null && compilers+=("$c"); done
headers=("$@")
[ $# -gt 0 ] || headers=(cleave.hpp core/error.hpp graph/concepts.hpp graph/snapshot.hpp graph/module_graph.hpp
                         partition/slices/balance.hpp split/split.hpp run/forward/forward.hpp draw/report.hpp)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

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
