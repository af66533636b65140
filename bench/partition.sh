#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compares cleave's partitioners, and METIS if installed. Writes runs.csv, report.html and the parts of each run to
# build/bench-partition. The report shows what is worse than in the tables of bench/recorded that have the same problems.
#   ./dev bench partition                                    generated graphs, small beside larger ones, and hypergraphs
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
small=(grid2d_10k road_10k mesh3d_13k fem2d_10k rgg2d_14 rhyp_14 rmat_13)
larger=(grid2d_1M road_1M mesh3d_216k del2d_18 rgg2d_18 rhyp_18 rmat:40k)
nets=(rows_fem2d_10k rows_rhyp_14 values_layered_10k netlist_10k netlist:30k)
(($#)) || set -- "${small[@]}" "${larger[@]}" "${nets[@]}" --algos fast,standard,quality,metis,metis-rb -k 2,8,32
mkdir -p "$out"
"$tool" bench "$@" --out "$out/runs.csv" --parts "$out/parts" > /dev/null
against=()  # of a result that is in several tables, the last one counts
for table in more_graphs networks real_graphs weighted_graphs connected hypergraphs default_run partition_ours; do
  against+=(--against "$root/bench/recorded/$table.csv")
done
"$tool" report "$out/runs.csv" "${against[@]}" --out "$out/report.html"
