#!/bin/sh
# Each header says to a compiler of C++17 that it needs C++20, in ten lines at most: language.sh INCLUDE_DIR COMPILER HEADER…
set -eu
include=$1 compiler=$2 wrong=0
shift 2
for header in "$@"; do
  if said=$(echo "#include \"$header\"" | LC_ALL=C "$compiler" -std=c++17 "-I$include" -fsyntax-only -x c++ - 2>&1); then
    echo "$header is C++17"
    wrong=1
  elif [ "$(echo "$said" | wc -l)" -gt 10 ] || ! echo "$said" | grep -q "cleave needs C++20: compile with -std=c++20"; then
    echo "$said" | head -n 20
    echo "-- of $header: more than 10 lines, or another reason"
    wrong=1
  fi
done
exit $wrong
