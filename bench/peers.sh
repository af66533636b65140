#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Partitioners of others beside ours, each in a process of its own (bench/peers/README.md).
#   ./dev bench peers run GRAPH... -k 2,8,32 --csv OUT [--parts DIR]      and eval, table, probe, missing: peers.py
#   ./dev bench peers instances list|write ...                            instances.py
#   ./dev bench peers stages table|speed ...                              stages.py
#   ./dev bench peers real DIR                                            real.py: real graphs from Debian packages, as METIS files
#   ./dev bench peers install                                             try again what could not be fetched
# Python packages go into build/venv-peers; what cannot be fetched is named, and its peers have no rows.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
environment=$root/build/venv-peers
python=$environment/bin/python
say() { printf '%s\n' "peers: $*" >&2; }

make_environment() {
  local package pip=("$python" -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 20)
  [[ -x $python ]] || python3 -m venv "$environment" || { say "python3 cannot make an environment (Debian: python3-venv)"; exit 1; }
  say "fetching $(paste -sd ' ' "$root/bench/peers/requirements.txt") from PyPI (330 MB in ${environment#"$root/"})"
  if ! "${pip[@]}" -r "$root/bench/peers/requirements.txt" 2> "$environment/pip.log"; then
    say "not all could be fetched (what pip said: $environment/pip.log); one by one:"
    while read -r package; do
      "${pip[@]}" "$package" 2>> "$environment/pip.log" || say "  $package is not here"
    done < "$root/bench/peers/requirements.txt"
  fi
  touch "$environment/asked"
}

# Without numpy nothing runs: then a Python that has it is as good.
choose_python() {
  if "$python" -c 'import numpy' 2> /dev/null; then return; fi
  python=$(command -v python3)
  "$python" -c 'import numpy' 2> /dev/null ||
    { say "numpy is missing and cannot be fetched; as root: apt-get install python3-numpy, or online: ./dev bench peers install"; exit 1; }
  say "using $python, for numpy could not be fetched"
}

# Meshes lie in a Debian package that is unpacked, not installed. What cannot be fetched costs its graphs, not the others.
write_real_graphs() {
  local data=$root/build/real_graphs as_root=()
  ((EUID == 0)) || as_root=(sudo)
  for package in wordnet-base wamerican-large; do
    dpkg -s "$package" > /dev/null 2>&1 || "${as_root[@]}" apt-get install -y -q "$package" > /dev/null 2>&1 || say "$package is not here: its graphs are left out"
  done
  mkdir -p "$data"
  if [[ ! -d $data/cgal ]]; then
    (cd "$data" && apt-get download -q libcgal-demo > /dev/null 2>&1 && dpkg-deb -x libcgal-demo_*.deb unpacked &&
      mkdir cgal && find unpacked -name '*.tar.gz' -exec tar -xzf {} -C cgal \;) || say "libcgal-demo is not here: its meshes are left out"
  fi
  "$python" -c 'import scipy' 2> /dev/null || "$python" -m pip install --quiet --disable-pip-version-check scipy || say "scipy cannot be fetched"
  "$python" -c 'import pyamg' 2> /dev/null || "$python" -m pip install --quiet --disable-pip-version-check pyamg 2> /dev/null ||
    say "pyamg cannot be fetched: its matrices are left out"
  "$python" "$root/bench/peers/real.py" "$1" "$data/cgal"
}

[[ ${1:-} == install || ! -f $environment/asked ]] && make_environment
choose_python
case ${1:-missing} in
  install) exec "$python" "$root/bench/peers/peers.py" missing ;;
  real)
    [[ -n ${2:-} ]] || { say "real takes a folder for the graphs: ./dev bench peers real graphs/real"; exit 1; }
    write_real_graphs "$2"
    ;;
  instances | stages) exec "$python" "$root/bench/peers/$1.py" "${@:2}" ;;
  *) exec "$python" "$root/bench/peers/peers.py" "${@:-missing}" ;;
esac
