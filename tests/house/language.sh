#!/bin/sh
# Each header says, in ten lines at most, what it needs of the compiler to one that is told to do without:
#   language.sh INCLUDE_DIR COMPILER HEADER…
set -eu
include=$1 compiler=$2 wrong=0
shift 2
refused() {  # FLAGS HEADER SENTENCE
  if said=$(echo "#include \"$2\"" | LC_ALL=C "$compiler" $1 "-I$include" -fsyntax-only -x c++ - 2>&1); then
    echo "$2 compiles with $1"
    wrong=1
  elif [ "$(echo "$said" | wc -l)" -gt 10 ] || ! echo "$said" | grep -q "$3"; then
    echo "$said" | head -n 20
    echo "-- of $2 with $1: more than 10 lines, or another reason"
    wrong=1
  fi
}
for header in "$@"; do
  refused "-std=c++17" "$header" "cleave needs C++20: compile with -std=c++20"
  refused "-std=c++20 -fno-exceptions" "$header" "cleave needs exceptions: compile without -fno-exceptions"
done
exit $wrong
