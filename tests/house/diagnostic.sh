#!/bin/sh
# One mistake gives one short diagnostic that names it, word for word the recorded one:
#   diagnostic.sh COMPILER INCLUDE_DIR MISTAKE.cpp RECORDED.txt
# With RECORD=1 in the environment the text is recorded.
set -eu
compiler=$1 include=$2 mistake=$3 recorded=$4
expect=$(sed -n '1s|^// expect: ||p' "$mistake")
[ -n "$expect" ] || { echo "$mistake: its first line is not '// expect: REGEX'"; exit 1; }

cd "$(dirname "$mistake")"
if said=$(LC_ALL=C "$compiler" -std=c++20 -fsyntax-only "-I$include" "$(basename "$mistake")" 2>&1); then
  echo "$mistake compiles"
  exit 1
fi
# Lines move when a header is edited, and versions follow one another: their numbers are not part of the text.
said=$(echo "$said" | sed -E "s|$include/||g; s/cleave::v[0-9]+_[0-9]+::/cleave::/g; s|/usr/[^ ]*/include/c[+][+]/[0-9]+/||g; s/:[0-9]+(:[0-9]+)?([:,])/\2/g; s/^ *[0-9]+ \|/      |/; s/^ +\|/      |/")
echo "$said"

lines=$(echo "$said" | wc -l)
[ "$lines" -le 20 ] || { echo "-- $lines lines: more than 20"; exit 1; }
echo "$said" | grep -Eq -- "$expect" || { echo "-- does not say: $expect"; exit 1; }
[ -z "${RECORD:-}" ] || echo "$said" > "$recorded"
[ -f "$recorded" ] || { echo "-- not recorded: RECORD=1 does it"; exit 1; }
echo "$said" | diff "$recorded" - || { echo "-- differs from $recorded"; exit 1; }
