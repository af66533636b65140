#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs a command in a network of its own, whose loopback interface carries RATE Mbit/s in all. MPI sends through it, so
# that two ranks are like two hosts with a link of half the rate each way. Needs root and the commands ip and tc; where
# it cannot make the network, it says so and runs the command without it.
#
# usage: slow_link.sh RATE COMMAND...
set -euo pipefail
if [[ $1 != --inside ]]; then
  if unshare --net "$0" --inside "$1" true 2> /dev/null; then
    exec unshare --net "$0" --inside "$@"
  fi
  echo "NOT LIMITED: no network of ${1} Mbit/s can be made here (it needs root, ip and tc); messages go as usual" >&2
  shift
  exec "$@"
fi
rate=$2
shift 2
ip link set lo up
tc qdisc add dev lo root tbf rate "${rate}mbit" burst 256kb latency 2s
export OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo
exec "$@"
