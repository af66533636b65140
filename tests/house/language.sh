#!/bin/sh
# Each header says, in ten lines at most, what it needs of the compiler to one that is told to do without. The fronts of
# graph, partition and split need neither exceptions nor RTTI.
#   language.sh INCLUDE_DIR COMPILER HEADER…
set -eu
include=$1 compiler=$2 wrong=0
shift 2
compile() {  # FLAGS HEADER
  # shellcheck disable=SC2086
  echo "#include \"$2\"" | LC_ALL=C "$compiler" $1 "-I$include" -fsyntax-only -x c++ - 2>&1
}
refused() {  # FLAGS HEADER SENTENCE
  if said=$(compile "$1" "$2"); then
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
done
refused "-std=c++20 -U__clang_major__ -D__clang_major__=15 -U__GNUC__ -D__GNUC__=11" cleave/core/language.hpp \
  "cleave needs \(clang 16\|g++ 12\) or newer"
for front in "$include"/cleave/*.hpp; do
  front=cleave/$(basename "$front")
  case $front in
    cleave/cleave.hpp) compile "-std=c++20 -fno-exceptions -fno-rtti -Werror" "$front" || wrong=1 ;;
    cleave/cut.hpp | cleave/graph.hpp | cleave/partition.hpp | cleave/split.hpp | cleave/version.hpp) ;;  # parts of it
    *) refused "-std=c++20 -fno-exceptions" "$front" "cleave needs exceptions: compile without -fno-exceptions" ;;
  esac
done
exit $wrong
