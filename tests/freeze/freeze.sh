#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Whether results are what they were: what the tool and the library write for many inputs, file by file, as digests.
#   ./dev freeze record [FILE]   before a change: writes the digests, and how long users' files compile (build/freeze.txt)
#   ./dev freeze check [FILE]    after it: names the results that are not what they were
# The results themselves are left in build/freeze.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)
tool=$root/build/ci/bin/cleave results=$root/build/freeze
verb=${1:-} file=${2:-$root/build/freeze.txt}
say() { printf '%s\n' "freeze: $*" >&2; }
[[ $verb == record || $verb == check ]] && (($# <= 2)) || { say "usage: ./dev freeze record|check [FILE]"; exit 2; }
[[ $verb == record || -f $file ]] || { say "$file is not there: ./dev freeze record $file, on the state to compare with"; exit 2; }

# What it says and how it ends, where it has no file to write.
keep() {  # NAME COMMAND...
  local to=$results/$1 code=0
  mkdir -p "$(dirname "$to")"
  "${@:2}" > "$to" 2>&1 < /dev/null || code=$?
  echo "exit $code" >> "$to"
}

partitions() {
  say "partitions"
  local graphs=(grid2d_10k grid3d_27k mesh3d_13k rgg2d_14 road_10k rhyp_14 ba_14 rmat_13 sbm_14)
  local ours; ours=$("$tool" bench --list | sed -n 's/^  \([a-z0-9-]*\) .*/\1/p' | grep -vx 'metis\|metis-rb' | paste -sd ,)
  "$tool" bench "${graphs[@]}" --algos fast,standard,quality -k 2,8,32 --seeds 3 --parts "$results/kway" \
    -o "$results/kway.csv" 2> "$results/kway.log" || true
  cut -d, -f1-8 "$results/kway.csv" > "$results/kway.cuts.csv"  # without the seconds
  rm "$results/kway.csv" "$results/kway.log"
  echo "$ours" > "$results/algorithms.txt"
}

schedules() {
  say "schedules"
  local name
  "$tool" schedule --help | grep -o '[A-Za-z0-9]*' | sort -u > /dev/null
  for name in GPipe 1F1B Interleaved1F1B LoopedBFS InterleavedZeroBubble ZBVZeroBubble DualPipeV; do
    keep "schedule/$name.csv" "$tool" schedule "$name" -p 4 -m 8 --csv
    keep "schedule/$name.json" "$tool" schedule "$name" -p 4 -m 8 --json
    keep "schedule/$name.svg" "$tool" schedule "$name" -p 4 -m 8 --svg --plain
    keep "schedule/$name.txt" "$tool" schedule "$name" -p 4 -m 8
  done
}

models() {
  say "models"
  local model name k
  for model in "$root"/examples/models/*.onnx "$root"/tests/models/onnx/*.onnx; do
    name=$(basename "$(dirname "$model")")-$(basename "$model" .onnx)
    keep "models/$name/inspect.txt" "$tool" inspect "$model"
    for k in 2 4; do
      keep "models/$name/$k.txt" "$tool" split "$model" -k "$k" --out "$results/models/$name/$k" \
        --map "$results/models/$name/$k.json" --report "$results/models/$name/$k.html"
      keep "models/$name/$k.plan.json" "$tool" split "$model" -k "$k" --json
    done
  done
}

# Seconds of the processor that users' files take to compile; never equal, so beside the digests.
compile_seconds() {
  say "seconds to compile"
  local source
  for source in "$root"/examples/*/[0-9]*.cpp; do
    [[ -f $source ]] || continue
    TIMEFORMAT='%U'
    printf '%s s  %s\n' "$({ time g++ -std=c++20 -O0 -DXXH_INLINE_ALL -I"$root/include" -c "$source" -o /dev/null 2> /dev/null; } 2>&1)" "$(basename "$source")"
  done
}

rm -rf "$results"
mkdir -p "$results"
partitions
schedules
models
say "the library's own"
"$root/build/ci/bin/freeze_results" "$results/library"
if [[ $verb == check ]]; then new=$results.txt.new; else new=$file; fi
(cd "$results" && find . -type f -print0 | sort -z | xargs -0 sed -i "s|$root|ROOT|g" && find . -type f -print0 | sort -z | xargs -0 sha256sum) > "$new"
if [[ $verb == record ]]; then
  compile_seconds > "$file.seconds"
  cat "$file.seconds"
  say "$(wc -l < "$file") results in $file"
elif cmp -s "$file" "$new"; then
  compile_seconds | paste "$file.seconds" - || true
  say "all $(wc -l < "$file") results are what they were"
else
  diff "$file" "$new" | sed -n 's/^[<>] [0-9a-f]*  //p' | sort -u >&2
  say "these results are not what they were, of $(wc -l < "$file")"
  exit 1
fi
