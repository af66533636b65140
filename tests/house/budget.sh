#!/bin/sh
# Fails when a header costs its user more preprocessed lines than allowed: budget.sh COMPILER INCLUDE_DIR LINES HEADER…
set -eu
compiler=$1 include=$2 budget=$3
shift 3
over=0
for header; do
  lines=$(echo "#include \"$header\"" | "$compiler" -std=c++20 -E -P -x c++ "-I$include" - | wc -l)
  echo "$lines of $budget lines: $header"
  [ "$lines" -le "$budget" ] || { echo "  over its budget"; over=1; }
done
exit $over
