#!/bin/sh
# Two versions of the library work in one program. The older one is a copy of this one with another version, another layout of
# its generator of random numbers and other numbers, so a function that the linker took for both would give wrong answers.
#   two_versions.sh COMPILER SOURCES FOLDER
set -e
here=$2/tests/house/two_versions
version=$(sed -n 's/^#define CLEAVE_VERSION "\([0-9]*\)\.\([0-9]*\)\..*/v\1_\2/p' "$2/include/cleave/version.hpp")
if grep -rn --include='*.hpp' --include='*.cuh' --include='*.cpp' '^namespace cleave' "$2/include" | grep -v "cleave::inline $version\( {\|::\)"; then
  echo "opens a namespace that is not of version $version"
  exit 1
fi
rm -rf "$3"
mkdir -p "$3"
cp -r "$2/include" "$3/older"
find "$3/older" -type f -exec sed -i "s/^namespace cleave::inline $version/namespace cleave::inline v0_1/" {} +
sed -i 's/std::uint64_t state_;/char unused_[64] = {}; std::uint64_t state_;/; s/0x9e3779b97f4a7c15u/0x9e3779b97f4a7c17u/' "$3/older/cleave/core/random.hpp"
for unit in this older; do
  headers=$2/include
  [ $unit = this ] || headers=$3/older
  "$1" -std=c++20 -I"$headers" -DANSWER=answer_of_$unit -c "$here/unit.cpp" -o "$3/$unit.o"
done
nm "$3/this.o" | grep -v ' U ' | grep 6cleave > "$3/symbols"
if sed "s/6cleave${#version}$version//g" "$3/symbols" | grep 6cleave; then
  echo "has no version in its name"
  exit 1
fi
"$1" -std=c++20 "$here/main.cpp" "$3/this.o" -o "$3/alone"
"$1" -std=c++20 -DBOTH "$here/main.cpp" "$3/this.o" "$3/older.o" -o "$3/both"
"$1" -std=c++20 -DBOTH "$here/main.cpp" "$3/older.o" "$3/this.o" -o "$3/both_the_other_way"
this=$("$3/alone")
"$3/both" > "$3/answers"
"$3/both_the_other_way" | cmp - "$3/answers"
[ "$this" = "$(sed -n 1p "$3/answers")" ]
[ "$this" != "$(sed -n 2p "$3/answers")" ]
