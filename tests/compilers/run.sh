#!/usr/bin/env bash
# Compiles all host headers together with many compilers, standard libraries and options, without warnings, and runs two
# programs with each: run.sh TOGETHER.cpp, which includes the headers. Compilers that Debian 12 lacks are those of Debian 13,
# in a folder to which the root user changes its root. Status 77: what could be compiled passed, something was left out.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
together=$1
work=$root/build/compilers
newer=$work/trixie  # Debian 13
failed=() left_out=()
warnings="-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Werror"

say() { printf '%s\n' "compilers: $*" >&2; }

# Runs a shell command in the place of the compilers: here, or in Debian 13.
here() { sh -c "cd '$work/sources' && $1"; }
there() { chroot "$newer" sh -c "cd /sources && $1"; }

# PLACE COMPILER OPTIONS…: one compilation of all headers for each word of options, and the programs with the first. Words
# join options with commas.
try() {
  local place=$1 compiler=$2 options programs=yes log
  for options in "${@:3}"; do
    log=$work/$place-$compiler${options//[^a-z0-9+]/_}.log
    options=${options//,/ }
    if "$place" "$compiler $options $warnings -Iinclude -fsyntax-only together.cpp" > "$log" 2>&1 &&
      { [[ $programs == no ]] || "$place" "$compiler $options $warnings -O1 -Iinclude chain.cpp -o chain && ./chain > chain.txt &&
          $compiler $options $warnings -O1 -fno-exceptions -fno-rtti -Iinclude main.cpp -o main && sh run.sh ./main" >> "$log" 2>&1; }; then
      say "passed: $compiler $options"
    else
      say "FAILED: $compiler $options"
      head -n 5 "$log" >&2
      failed+=("$compiler $options")
    fi
    programs=no
  done
}

fill() {  # FOLDER; the sources that are compiled
  rm -rf "$1"
  mkdir -p "$1"
  cp -r "$root/include" "$together" "$root/tests/house/without_exceptions/main.cpp" "$root/tests/house/without_exceptions/run.sh" "$1"
  cp "$root/examples/cut/01_split_a_chain.cpp" "$1/chain.cpp"
}

make_debian_13() {
  local packages=g++-13,g++-14,clang-17,clang-18,clang-22,libc++-22-dev,libc++abi-22-dev
  ((EUID == 0)) || { say "g++ 13, g++ 14, clang 17, 18 and 22 of Debian 13 are left out: they need root" && return 1; }
  command -v debootstrap > /dev/null || { say "g++ 13, g++ 14, clang 17, 18 and 22 of Debian 13 are left out: debootstrap is missing" && return 1; }
  [[ ! -f $newer/complete ]] || return 0
  say "installing the compilers of Debian 13 in ${newer#"$root/"} (2 GB)"
  rm -rf "$newer"
  debootstrap --variant=minbase --include="$packages" trixie "$newer" > "$work/debootstrap.log" 2>&1 ||
    { say "Debian 13 cannot be installed (output: $work/debootstrap.log); its compilers are left out" && return 1; }
  touch "$newer/complete"
}

mkdir -p "$work"
fill "$work/sources"
for compiler in g++-12 clang++-16 clang++-19; do
  command -v "$compiler" > /dev/null || { left_out+=("$compiler") && continue; }
  try here "$compiler" -std=c++20 -std=c++2b -std=c++20,-fno-rtti
done
if [[ -d /usr/lib/llvm-16/include/c++/v1 ]] && command -v clang++-16 > /dev/null; then
  try here clang++-16 -std=c++20,-stdlib=libc++
else
  left_out+=("clang++-16 with libc++")
fi
if make_debian_13; then
  fill "$newer/sources"
  try there g++-13 -std=c++20 -std=c++2b
  try there g++-14 -std=c++20 -std=c++2b
  try there clang++-17 -std=c++20
  try there clang++-18 -std=c++20
  try there clang++-22 -std=c++20 -std=c++2b -std=c++2c
  try there clang++-22 -std=c++20,-stdlib=libc++,-static-libstdc++,-Wno-unused-command-line-argument  # whose shared library Debian lacks
  rm -rf "$newer/sources"
else
  left_out+=("the compilers of Debian 13")
fi
((${#failed[@]} == 0)) || { say "failed: $(printf '%s, ' "${failed[@]}" | sed 's/, $//')" && exit 1; }
((${#left_out[@]} == 0)) || { say "left out: $(printf '%s, ' "${left_out[@]}" | sed 's/, $//')" && exit 77; }
