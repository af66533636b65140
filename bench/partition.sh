#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compares cleave's partitioners, and METIS if installed. Writes runs.csv, report.html and the parts of each run to
# build/bench-partition.
#   ./dev bench partition                                    nine small generated graphs
#   ./dev bench partition FILE|DIR|NAME ... [options]        your graphs; options: see `cleave bench --help`
#   ./dev bench partition --page [CSV ...]                   regenerates the tables of docs/performance/partitioning.md from bench/recorded/partition_*.csv
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
out=$root/build/bench-partition
"$root/dev" cleave --version > /dev/null
tool=$root/build/ci/bin/cleave

write_page() {
  local page=$root/docs/performance/partitioning.md new=$root/build/performance.md
  (($#)) || set -- "$root"/bench/recorded/partition_*.csv
  {
    sed '/^<!-- \.\/dev bench partition --page/q' "$page"
    "$tool" report "$@" --markdown
    sed -n '/^<!-- end of partition -->/,$p' "$page"
  } > "$new"
  cp "$new" "$page"
}

if [[ ${1:-} == --page ]]; then
  write_page "${@:2}"
  exit
fi
(($#)) || set -- grid2d_10k grid3d_27k mesh3d_13k rgg2d_14 road_10k rhyp_14 ba_14 rmat_13 sbm_14 --algos fast,standard,quality,metis,metis-rb,fm -k 2,8,32
mkdir -p "$out"
"$tool" bench "$@" --out "$out/runs.csv" --parts "$out/parts"
"$tool" report "$out/runs.csv" --out "$out/report.html" > /dev/null
printf '  %s\n' "$out/report.html"
