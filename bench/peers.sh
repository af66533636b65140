#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compares other partitioners with cleave's, each in its own process (bench/peers/README.md).
#   ./dev bench peers run GRAPH... -k 2,8,32 --csv OUT [--parts DIR]      and eval, table, probe, missing: peers.py
#   ./dev bench peers instances list|write ...                            instances.py
#   ./dev bench peers stages table|speed ...                              stages.py
#   ./dev bench peers hypergraphs DIR [FILE.hgr ...] ...                  hypergraphs.py: Mt-KaHyPar on hypergraphs
#   ./dev bench peers mapping GRAPH... [--machine 4:4:4 --distances 1:10:100]   mapping.py: Mt-KaHyPar's mapping to a machine
#   ./dev bench peers real DIR                                            real.py: real graphs from Debian packages, as METIS files
#   ./dev bench peers piper|alpa OUT [--repository DIR] [NAME GIB DEVICES]...     piper.py, alpa.py: plans of stages with copies
#   ./dev bench peers install                                             retry failed downloads
# Python packages go into build/venv-peers; failed downloads are reported, and their peers are left out.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
environment=$root/build/venv-peers
python=$environment/bin/python
say() { printf '%s\n' "peers: $*" >&2; }

make_environment() {
  local package pip=("$python" -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 20)
  [[ -x $python ]] || python3 -m venv "$environment" || { say "python3 cannot make a virtual environment; install python3-venv (Debian)"; exit 1; }
  say "downloading $(paste -sd ' ' "$root/bench/peers/requirements.txt") from PyPI (330 MB in ${environment#"$root/"})"
  if ! "${pip[@]}" -r "$root/bench/peers/requirements.txt" 2> "$environment/pip.log"; then
    say "pip failed (output: $environment/pip.log); trying each package alone:"
    while read -r package; do
      "${pip[@]}" "$package" 2>> "$environment/pip.log" || say "  $package could not be downloaded"
    done < "$root/bench/peers/requirements.txt"
  fi
  touch "$environment/asked"
}

# numpy is required. If it cannot be installed, another Python that has it is used.
choose_python() {
  if "$python" -c 'import numpy' 2> /dev/null; then return; fi
  python=$(command -v python3)
  "$python" -c 'import numpy' 2> /dev/null ||
    { say "numpy is missing and cannot be downloaded; run apt-get install python3-numpy as root, or ./dev bench peers install with a network"; exit 1; }
  say "using $python, since numpy could not be downloaded"
}

# Meshes come from a Debian package that is unpacked, not installed. A failed download only costs its own graphs.
write_real_graphs() {
  local data=$root/build/real_graphs as_root=()
  ((EUID == 0)) || as_root=(sudo)
  for package in wordnet-base wamerican-large; do
    dpkg -s "$package" > /dev/null 2>&1 || "${as_root[@]}" apt-get install -y -q "$package" > /dev/null 2>&1 || say "$package is not installed; its graphs are left out"
  done
  mkdir -p "$data"
  if [[ ! -d $data/cgal ]]; then
    (cd "$data" && apt-get download -q libcgal-demo > /dev/null 2>&1 && dpkg-deb -x libcgal-demo_*.deb unpacked &&
      mkdir cgal && find unpacked -name '*.tar.gz' -exec tar -xzf {} -C cgal \;) || say "libcgal-demo could not be downloaded; its meshes are left out"
  fi
  "$python" -c 'import scipy' 2> /dev/null || "$python" -m pip install --quiet --disable-pip-version-check scipy || say "scipy cannot be downloaded"
  "$python" -c 'import pyamg' 2> /dev/null || "$python" -m pip install --quiet --disable-pip-version-check pyamg 2> /dev/null ||
    say "pyamg cannot be downloaded; its matrices are left out"
  "$python" "$root/bench/peers/real.py" "$1" "$data/cgal"
}

[[ ${1:-} == install || ! -f $environment/asked ]] && make_environment
choose_python
case ${1:-missing} in
  install) exec "$python" "$root/bench/peers/peers.py" missing ;;
  real)
    [[ -n ${2:-} ]] || { say "the folder for the graphs is missing, as in ./dev bench peers real graphs/real"; exit 1; }
    write_real_graphs "$2"
    ;;
  hypergraphs | mapping)
    "$root/dev" cleave --version > /dev/null
    CLEAVE_TOOL=$root/build/ci/bin/cleave exec "$python" "$root/bench/peers/$1.py" "${@:2}"
    ;;
  alpa)
    "$python" -c 'import numba' 2> /dev/null || "$python" -m pip install --quiet --disable-pip-version-check numba==0.68.1 ||
      { say "numba cannot be downloaded; Alpa's planner needs it"; exit 1; }
    exec "$python" "$root/bench/peers/alpa.py" "${@:2}"
    ;;
  instances | stages | piper) exec "$python" "$root/bench/peers/$1.py" "${@:2}" ;;
  *) exec "$python" "$root/bench/peers/peers.py" "${@:-missing}" ;;
esac
