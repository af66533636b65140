#!/bin/sh
# Fails when a header costs its user more preprocessed lines than allowed: budget.sh LINES HEADER… -- COMPILER OPTION…
set -eu
budget=$1 headers="" over=0
shift
while [ "$1" != -- ]; do headers="$headers $1"; shift; done
shift
text=$(mktemp)
trap 'rm -f "$text"' EXIT
for header in $headers; do
  echo "#include \"$header\"" | "$@" -std=c++20 -E -P -x c++ -o "$text" -
  lines=$(wc -l < "$text")
  echo "$lines of $budget lines: $header"
  [ "$lines" -le "$budget" ] || { echo "  over its budget"; over=1; }
done
exit $over
