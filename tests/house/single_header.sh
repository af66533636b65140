#!/bin/sh
# The program of examples/packages compiles with two headers made of one file each, and cuts its chain.
#   single_header.sh COMPILER SOURCES PYTHON FOLDER
set -e
rm -rf "$4"
mkdir -p "$4/cleave"
for name in cleave version; do
  "$3" "$2/examples/packages/single_header.py" "$name" -o "$4/cleave/$name.hpp"
done
if grep -n '# *include *["<]cleave/' "$4/cleave/cleave.hpp"; then
  echo "the file still includes headers of cleave"
  exit 1
fi
"$1" -std=c++20 -I"$4" "$2/examples/packages/cut_a_chain.cpp" -o "$4/cut_a_chain"
"$4/cut_a_chain"
"$3" "$2/examples/packages/single_header.py" nothing 2> "$4/refusal" && exit 1
grep -q 'there is no <cleave/nothing.hpp>; known: acyclic' "$4/refusal"
