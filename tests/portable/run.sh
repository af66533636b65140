#!/usr/bin/env bash
# Compiles tests for other processors with Debian's cross compilers and runs them in qemu: run.sh JOBS [PROCESSOR] [TEST.cpp…], without
# tests a selection: what turns values into bytes and back, counts in words of the machine, or adds numbers. The processor
# s390x has 64 bits and the most significant byte first, ppc 32 bits and the same order, i386 and arm have 32 bits and the
# other order. Status 77: what could be run passed, something was left out.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
jobs=$1
work=$root/build/portable
only=
shift
if (($#)) && [[ $1 != *.cpp ]]; then only=$1 && shift; fi
cd "$root"

say() { printf '%s\n' "portable: $*" >&2; }

(($#)) || set -- tests/core/*.cpp tests/graph/*.cpp tests/graph/flow/*.cpp tests/partition/{model,slices,separator}/*.cpp \
  tests/partition/kway/{kway,hypergraph_of,stream_partitioner,wide_offsets}.cpp tests/split/*.cpp \
  tests/schedule/{model,lower,text}/*.cpp tests/run/sums/*.cpp tests/formats/{bytes,json}/*.cpp \
  tests/formats/{stage_buffer,pipe_buffer,graph_json,cost_table}.cpp tests/schedule/search/exact_passes.cpp \
  tests/checkpoint/{checkpoint,checkpoint_content,checkpoint_names,checkpoint_writer,digest}.cpp

# Where folders list their files at places of 32 bits, as programs of 32 bits in qemu need.
if [[ -d /dev/shm && -w /dev/shm ]]; then export TMPDIR=/dev/shm; fi

# Headers without code of their own, which a cross compiler does not look for where they are.
mkdir -p "$work/include"
for header in doctest nlohmann flatbuffers xxhash.h; do
  if [[ -e /usr/include/$header ]]; then ln -sfn "/usr/include/$header" "$work/include/$header"; fi
done

compile_and_run() {  # COMPILER PROCESSOR OPTIONS TEST.cpp
  local name=${4#tests/} place
  name=${name%.cpp}
  place=$work/$2/$name
  mkdir -p "$(dirname "$place")"
  # shellcheck disable=SC2086
  if ! "$1" -std=c++20 -O1 -static $3 -Iinclude -Itests -isystem "$work/include" -DXXH_INLINE_ALL \
    "-DCLEAVE_SOURCE_DIR=\"$root\"" "-DCLEAVE_TEST_DATA=\"$root/tests\"" "$4" "$work/$2/main.o" -o "$place" > "$place.log" 2>&1; then
    if grep -q 'static assertion failed: files have the bytes as they are in memory' "$place.log" && [[ $2 == s390x || $2 == ppc ]]; then
      echo "refused $2 $4, as docs/architecture.md says of checkpoints"
    elif grep -q 'fatal error: .*No such file or directory' "$place.log"; then
      echo "left out $2 $4: $(sed -n 's/.*fatal error: \(.*\)/\1/p' "$place.log" | head -n 1)"
    else
      echo "FAILED $2 $4: it does not compile (output: $place.log)"
    fi
  elif ! timeout 1200 "qemu-$2-static" "$place" > "$place.log" 2>&1 || grep -q 'test cases: *0 ' "$place.log"; then
    echo "FAILED $2 $4 (output: $place.log)"
  else
    echo "passed $2 $4"
    rm -f "$place"
  fi
}
export -f compile_and_run
export root work

targets=("s390x-linux-gnu-g++-12 s390x" "powerpc-linux-gnu-g++-12 ppc" "i686-linux-gnu-g++-12 i386 -msse2 -mfpmath=sse"
  "arm-linux-gnueabihf-g++-12 arm -Wno-psabi")
failed=0 absent=()
for target in "${targets[@]}"; do
  read -r compiler processor options <<< "$target"
  [[ ${only:-$processor} == "$processor" ]] || continue
  if ! command -v "$compiler" > /dev/null || ! command -v "qemu-$processor-static" > /dev/null; then
    absent+=("$processor")
    continue
  fi
  say "compiling and running $# tests for $processor"
  mkdir -p "$work/$processor"
  # shellcheck disable=SC2086
  "$compiler" -std=c++20 -O1 $options -isystem "$work/include" -c tests/main.cpp -o "$work/$processor/main.o"
  printf '%s\0' "$@" | xargs -0 -P "$jobs" -I TEST bash -c 'compile_and_run "$@"' _ "$compiler" "$processor" "$options" TEST > "$work/$processor.txt"
  grep -v '^passed\|^refused' "$work/$processor.txt" >&2 || true
  say "$processor: $(grep -c '^passed' "$work/$processor.txt" || true) passed"
  ! grep -q '^FAILED' "$work/$processor.txt" || failed=1
  ! grep -q '^left out' "$work/$processor.txt" || absent+=("some tests on $processor")
done
((failed == 0)) || exit 1
((${#absent[@]} == 0)) || { say "left out: $(printf '%s, ' "${absent[@]}" | sed 's/, $//')" && exit 77; }
