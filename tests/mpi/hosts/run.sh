#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs ranks on two hosts: two network namespaces with names, name files and interfaces of their own, joined by a veth pair.
# `./dev check hosts` runs this, after it has built the presets openmpi and mpich. All happens in new namespaces, of
# processes and mounts too: when the script ends, the kernel removes what is left. It needs root. Where it cannot run, it
# says so and exits with status 77.
#
# usage: run.sh [PART]...  the parts are those of the list below; default: all
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
parts=(join lookup lost_link mpi mpi_lost_link checkpoints restart torchrun)
out=$root/build/hosts  # the output of all ranks

say() { printf '%s\n' "$*"; }
not_run() { say "NOT RUN: $*"; exit 77; }

if [[ -z ${INSIDE_HOSTS:-} ]]; then
  ((EUID == 0)) || not_run "the check with two hosts makes network namespaces, which needs root"
  for tool in ip unshare nsenter timeout; do
    command -v "$tool" > /dev/null || not_run "the check with two hosts needs the command $tool (iproute2, util-linux)"
  done
  new=(unshare --net --mount --uts --ipc --pid --fork --kill-child --mount-proc)
  "${new[@]}" sh -c 'mount -t tmpfs none /run && ip netns add probe && ip link add probe1 type veth peer name probe2' \
    2> /dev/null || not_run "the check with two hosts needs network namespaces with veth pairs, which this system refuses"
  INSIDE_HOSTS=1 exec "${new[@]}" "$0" "$@"
fi

# The hosts node1 and node2. eth0 connects them. `extra` and `docker` are connected to nothing: one has another address on
# each host, the other the same. As Debian does, a host finds its own name at 127.0.1.1.
make_hosts() {
  mount -t tmpfs none /run
  mkdir -p /run/uts /run/etc /run/shared "$out"
  rm -f "$out"/*
  local n
  for n in 1 2; do
    ip netns add "node$n"
    touch "/run/uts/node$n"
    unshare --uts="/run/uts/node$n" hostname "node$n"
  done
  ip link add eth0 netns node1 type veth peer name eth0 netns node2
  for n in 1 2; do
    ip -n "node$n" link add extra type veth peer name unused1
    ip -n "node$n" link add docker type veth peer name unused2
    ip -n "node$n" addr add "172.17.0.1/16" dev docker
    ip -n "node$n" addr add "192.168.77.$n/24" dev extra
    ip -n "node$n" addr add "10.9.0.$n/24" dev eth0
    ip -n "node$n" addr add "fd09::$n/64" dev eth0 nodad 2> /dev/null
    for link in lo unused1 unused2 docker extra eth0; do ip -n "node$n" link set "$link" up; done
    mkdir "/run/etc/node$n"
    printf 'nameserver 127.0.0.53\n' > "/run/etc/node$n/resolv.conf"
    printf '127.0.0.1 localhost\n127.0.1.1 node%s\nfd09::1 node1-six\n' "$n" > "/run/etc/node$n/hosts"
  done
  name_each_other
  wait_for 10 is_connected
  # The ways to a host: `on HOST COMMAND...`, and that of a launcher, which gives one line for a shell after options.
  cat > /run/on << 'END'
#!/bin/sh
host=$1
shift
exec nsenter --net="/run/netns/$host" --uts="/run/uts/$host" unshare --mount sh -c '
  mount -t sysfs none /sys 2> /dev/null
  mount --bind "/run/etc/$0/hosts" /etc/hosts && mount --bind "/run/etc/$0/resolv.conf" /etc/resolv.conf && exec "$@"' "$host" "$@"
END
  cat > /run/agent << 'END'
#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
case $host in 10.9.0.*) host=node${host#10.9.0.} ;; esac
exec /run/on "$host" sh -c "$*"
END
  chmod +x /run/on /run/agent
}

# lose_link, restore_link; where an interface goes down, its address of IPv6 is forgotten
lose_link() { ip -n node1 link set eth0 down; }
restore_link() {
  ip -n node1 link set eth0 up
  ip -n node1 addr replace "fd09::1/64" dev eth0 nodad 2> /dev/null
  wait_for 10 is_connected
}
is_connected() { ip -n node1 link show eth0 | grep -q 'state UP' && ip -n node2 link show eth0 | grep -q 'state UP'; }
name_each_other() {
  echo '10.9.0.2 node2' >> /run/etc/node1/hosts
  echo '10.9.0.1 node1' >> /run/etc/node2/hosts
}

failures=0 left_out=()
# check TEXT COMMAND...; runs a test, and on failure shows what the ranks said.
check() {
  local what=$1
  shift
  if "$@"; then
    say "  ok: $what"
  else
    say "  FAILED: $what"
    failures=$((failures + 1))
    tail -n 30 "$out/$name".* 2> /dev/null | sed 's/^/    /'
  fi
}
# said FILE PATTERN; whether a rank of the current test said so
said() { grep -Eq -- "$2" "$out/$name.$1" 2> /dev/null; }
# wait_for SECONDS COMMAND...; whether it succeeds within that time
wait_for() {
  local until=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < until)) || return 1
    sleep 0.02
  done
}
# none_left NAME...; whether no process of these programs is left
none_left() {
  local program
  for program; do
    pgrep -x "${program:0:15}" > /dev/null && return 1
  done
  return 0
}

programs=(mpi_ranks host_rank example_run_07_restart orted mpirun.openmpi hydra_pmi_proxy mpiexec.mpich)

key=0123456789abcdef0123456789abcdef
# start_rank HOST RANK SIZE ADDRESS ARGUMENTS...; starts host_rank in the background as torchrun would
start_rank() {
  local host=$1 rank=$2 size=$3 address=$4
  shift 4
  /run/on "$host" env RANK="$rank" WORLD_SIZE="$size" LOCAL_RANK=$((rank / 2)) LOCAL_WORLD_SIZE=$(((size + 1) / 2)) \
    MASTER_ADDR="$address" MASTER_PORT=29500 CLEAVE_KEY="$key" timeout -k 1 120 "$ranks/host_rank" "$@" \
    > "$out/$name.$rank" 2>&1 &
  started+=("$!")
}
# end_ranks; waits for the started ranks, and leaves their statuses, `0 0`, in `statuses`
end_ranks() {
  statuses=
  local process
  for process in "${started[@]}"; do
    wait "$process"
    statuses+="${statuses:+ }$?"
  done
  started=()
}
started=()
statuses_are() { [[ $statuses == "$1" ]]; }

# Ranks meet at the address of rank 0, however it is written, on whichever host it is.
part_join() {
  local address at
  for address in 10.9.0.1 node1 fd09::1 node1-six; do
    at=node1
    name=join_$address
    start_rank "$at" 0 3 "$address" meet 20000
    start_rank node2 1 3 "$address" meet 20000
    start_rank node1 2 3 "$address" meet 20000
    end_ranks
    check "ranks on both hosts meet at $address" statuses_are "0 0 0"
    check "all hear of both hosts" said 1 "rank 1 met node1 node2 node1"
  done
  name=join_late
  start_rank node1 1 2 10.9.0.2 meet 20000
  sleep 1
  start_rank node2 0 2 10.9.0.2 meet 20000
  end_ranks
  check "rank 0 may be on the other host, and late" statuses_are "0 0"
  name=join_unreachable
  start_rank node1 0 2 192.168.77.1 meet 2000
  start_rank node2 1 2 192.168.77.1 meet 2000
  end_ranks
  check "an address of the wrong interface fails" statuses_are "1 1"
  check "rank 0 names the missing rank" said 0 "only 1 of 2 ranks joined before the deadline: rank 1 is missing"
  check "the other names the address, in time" said 1 "ends after [12][0-9]{3} ms: .*rank 0 \(192.168.77.1:[0-9]+\) was not reached"
}

# A name that is wrong, or that no name server knows, is named within the limit of the join.
part_lookup() {
  name=lookup_none
  start_rank node2 1 2 node7 meet 3000
  end_ranks
  check "a wrong name is named, in time" said 1 "ends after [0-3]?[0-9]{1,3} ms: .*the host node7 is not known"
  name=lookup_silent
  printf 'nameserver 127.0.0.1\n' > /run/etc/node2/resolv.conf
  /run/on node2 timeout -k 1 60 "$ranks/host_rank" silent > "$out/$name.server" 2>&1 &
  local server=$!
  wait_for 10 said server silent
  start_rank node2 1 2 node7 meet 3000
  end_ranks
  check "with a name server that does not answer, too" said 1 "ends after 3[0-9]{3} ms: .*the host node7"
  kill "$server" 2> /dev/null
  wait "$server" 2> /dev/null
  printf 'nameserver 127.0.0.53\n' > /run/etc/node2/resolv.conf
}

# When the link goes down, ranks of the rendezvous notice: those that exchange messages, and those that only wait.
part_lost_link() {
  local way
  for way in busy idle; do
    name=lost_link_$way
    start_rank node1 0 3 10.9.0.1 stay "$way"
    start_rank node2 1 3 10.9.0.1 stay "$way"
    start_rank node1 2 3 10.9.0.1 stay "$way"
    wait_for 20 said 0 joined
    wait_for 20 said 1 joined
    local begin=$SECONDS
    lose_link
    end_ranks
    check "all $way ranks end when the link is down, after at most 20 s" test $((SECONDS - begin)) -le 20
    check "with an error" statuses_are "1 1 1"
    check "rank 0 names the lost rank" said 0 "caused by rank 1: peer lost: the connection to rank 1 \(10.9.0.2:"
    check "the other rank of the host names it too" said 2 "caused by rank 1: peer lost"
    check "the lost rank names rank 0" said 1 "caused by rank 0: peer lost: the connection to rank 0 \(10.9.0.1:"
    restore_link
  done
}

# The launchers, with the agent above instead of ssh. mpirun runs on node1.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_hwloc_base_binding_policy=none
export UCX_TLS=tcp,self UCX_NET_DEVICES=eth0  # UCX of MPICH would find shared memory between these hosts
export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_rmaps_base_oversubscribe=1
names=(node1 node2)  # as in the list of hosts
launch() {  # LIBRARY RANKS PROGRAM ARGUMENTS...; on both hosts, rank 0 on node1
  local library=$1 n=$2
  shift 2
  if [[ $library == openmpi ]]; then
    printf '%s slots=%s\n' "${names[0]}" $(((n + 1) / 2)) "${names[1]}" $((n / 2)) > /run/hostfile
    set -- mpirun.openmpi --mca plm_rsh_agent /run/agent --hostfile /run/hostfile \
      --mca oob_tcp_if_include eth0 --mca btl_tcp_if_include eth0 "${options[@]}" -n "$n" "$@"
  else
    printf '%s:%s\n' "${names[0]}" $(((n + 1) / 2)) "${names[1]}" $((n / 2)) > /run/hostfile
    set -- mpiexec.mpich -launcher ssh -launcher-exec /run/agent -f /run/hostfile -iface eth0 "${options[@]}" -n "$n" "$@"
  fi
  /run/on node1 timeout -k 2 100 "$@" > "$out/$name.all" 2>&1
}
options=()
libraries() {
  local library
  for library in openmpi mpich; do
    [[ -x $root/build/$library/bin/mpi_ranks ]] && echo "$library"
  done
}

part_mpi() {
  local library alone
  for library in $(libraries); do
    local bin=$root/build/$library/bin
    name=mpi_${library}_hosts
    launch "$library" 4 sh -c 'hostname'
    check "$library: ranks are on both hosts" test "$(sort "$out/$name.all" | uniq -c | tr -s ' ' | paste -sd,)" = " 2 node1, 2 node2"
    name=mpi_${library}_example
    launch "$library" 2 "$bin/example_run_04_run_on_processes_mpi"
    check "$library: example 04 runs" test $? -eq 0
    alone=$(/run/on node1 timeout -k 2 60 "mpirun.$library" -n 2 "$bin/example_run_04_run_on_processes_mpi" 2> /dev/null)
    check "$library: and prints what it does on one host" test "$(grep '^loss' "$out/$name.all")" = "$(grep '^loss' <<< "$alone")" -a -n "$alone"
    name=mpi_${library}_pipelines
    launch "$library" 4 "$bin/mpi_ranks" pipelines
    check "$library: schedules train to the bit as the whole model" said all "^pipelines agree"
    name=mpi_${library}_parity
    launch "$library" 2 "$bin/mpi_parity"
    check "$library: the recorded training runs are the same" said all "^[0-9]+ cases are the same"
    name=mpi_${library}_numbers
    sed -i '/^10\.9/d' /run/etc/node1/hosts /run/etc/node2/hosts  # hosts that do not know each other's names
    names=(10.9.0.1 10.9.0.2)
    launch "$library" 4 "$bin/mpi_ranks" pipelines
    check "$library: hosts may be numbers, whose names are not known" said all "^pipelines agree"
    name_each_other
    names=(node1 node2)
    name=mpi_${library}_killed
    launch "$library" 4 "$bin/mpi_ranks" suffer kill 7
    check "$library: a killed rank ends the job" test $? -ne 0
    check "$library: nothing is left" wait_for 10 none_left "${programs[@]}"
  done
}

# The daemons of launchers, and that of Open MPI itself, notice that the other host is gone when the system gives up their
# connections: without the setting that takes a quarter of an hour. The launcher of MPICH has to be interrupted.
part_mpi_lost_link() {
  local library limit rank
  for rank in 1 2; do /run/on "node$rank" sysctl -q net.ipv4.tcp_retries2=5; done
  for library in $(libraries); do
    for limit in 2000 60000; do
      name=mpi_lost_link_${library}_$limit
      # Each to a file of its own, since what the launcher would forward needs the link.
      launch "$library" 4 sh -c "exec $root/build/$library/bin/mpi_ranks endless $limit > $out/$name.\${OMPI_COMM_WORLD_RANK:-\$PMI_RANK} 2>&1" &
      local job=$!
      for rank in 0 1 2 3; do wait_for 30 said "$rank" "the first step is done"; done
      lose_link
      check "$library: within a limit of $limit ms for a step, all ranks end after at most 20 s" wait_for 20 none_left mpi_ranks
      [[ $library == openmpi ]] || pkill -INT -x mpiexec.mpich
      check "$library: nothing is left after a minute" wait_for 60 none_left "${programs[@]}"
      wait "$job"
      check "$library: the launcher fails" test $? -ne 0
      restore_link
      for rank in 0 1; do
        check "$library: rank $rank names a rank of the other host" said "$rank" "^rank $rank ends: .*caused by rank [23]: (peer lost|timed out)"
      done
      for rank in 2 3; do
        check "$library: rank $rank too" said "$rank" "^rank $rank ends: .*caused by rank [01]: (peer lost|timed out)"
      done
    done
  done
}

# Ranks of both hosts write checkpoints to one folder, which another number of ranks loads.
part_checkpoints() {
  local library n step=0
  local folder=/run/shared/steps
  mkdir "$folder"
  for library in $(libraries); do
    for n in 4 3 2 4; do
      name=checkpoints_${library}_$n
      launch "$library" "$n" "$root/build/$library/bin/mpi_ranks" "save next" "$folder"
      check "$library: $n ranks load step $step and save the next" said all "^$n ranks loaded step $step and saved the next"
      step=$((step + 1))
    done
  done
}

losses() { sed -n 's/^\(\[[a-z0-9]*\]:\)\?\(step [0-9]*, loss .*\)/\2/p' "$@" | sort -u -t ' ' -k 2n; }
# newest_step FOLDER; prints the step of the newest checkpoint, or 0
newest_step() {
  local newest
  newest=$(find "$1" -name '*.manifest' | sed 's/.*-step-\([0-9]*\)\.manifest/\1/' | sort -n | tail -n 1)
  echo "${newest:-0}"
}
has_step() { (($(newest_step "$1") >= $2)); }
# kill_when FOLDER STEP PROGRAM; kills a rank of a program once the folder has a checkpoint of at least that step
kill_when() {
  wait_for 40 has_step "$1" "$2" && kill -KILL "$(pgrep -x "${3:0:15}" | shuf -n 1)"
}

# The launcher starts again after a rank was killed; all losses are those of an unbroken run. What MPICH's launcher has not
# yet forwarded when a rank is killed is lost.
part_restart() {
  local library
  for library in $(libraries); do
    local program=$root/build/$library/bin/example_run_07_restart_after_a_failure_mpi folder=/run/shared/restart_$library
    local attempt ends="" steps
    mkdir "$folder" "$folder.whole"
    for attempt in 1 2 3; do
      name=restart_${library}_$attempt
      kill_when "$folder" $(($(newest_step "$folder") + 8)) "${program##*/}" &
      launch "$library" 2 "$program" "$folder" 1000000000
      ends+=" $(($? != 0))"
    done
    check "$library: each attempt ends when a rank is killed" test "$ends" = " 1 1 1"
    steps=$(($(newest_step "$folder") + 4))
    name=restart_${library}_last
    launch "$library" 2 "$program" "$folder" "$steps"
    check "$library: the last one ends well" test $? -eq 0
    check "$library: it begins after the newest checkpoint" said all "^begins with step $((steps - 3))$"
    name=restart_${library}_whole
    launch "$library" 2 "$program" "$folder.whole" "$steps"
    check "$library: so does a run without failures" test $? -eq 0
    losses "$out/restart_$library"_[123].all "$out/restart_${library}_last.all" |
      awk -v n="$steps" '$2 + 0 <= n' > "$out/$name.other_losses"
    losses "$out/$name.all" > "$out/$name.losses"
    check "$library: the losses of $(wc -l < "$out/$name.other_losses") of $steps steps are equal to the last bit" \
      test -z "$(comm -23 <(sort "$out/$name.other_losses") <(sort "$out/$name.losses"))" -a -s "$out/$name.other_losses"
  done
}

# torchrun on both hosts starts the ranks again after one was killed.
part_torchrun() {
  local python=(sh "$root/tests/support/with_torch.sh" distributed)
  if ! "${python[@]}" -c pass 2> /dev/null; then
    left_out+=(torchrun)
    say "  NOT RUN: no Python here has torch (./dev pytorch fetches it)"
    return
  fi
  mkdir /run/shared/torchrun /run/shared/torchrun.whole
  train_with() {  # NAME ENDPOINT FOLDER ARGUMENTS...; node1 has the endpoint
    name=$1
    local endpoint=$2 folder=$3 n
    shift 3
    for n in 1 2; do
      /run/on "node$n" env CLEAVE_KEY="$key" GLOO_SOCKET_IFNAME=eth0 timeout -k 5 150 "${python[@]}" -m torch.distributed.run \
        --nnodes 2 --nproc-per-node 2 --max-restarts 2 --rdzv-backend c10d --rdzv-endpoint "$endpoint" \
        ${endpoints_are_numbers:+--rdzv-conf "is_host=$((n == 1))"} --local-addr "10.9.0.$n" --rdzv-id "$name" \
        --no-python "$ranks/host_rank" train "$folder" 20 "$@" > "$out/$name.node$n" 2>&1 &
      started+=("$!")
    done
    end_ranks
    check "torchrun: $name ends well on both hosts" statuses_are "0 0"
  }
  local endpoints_are_numbers=
  train_with restarted node1:29400 /run/shared/torchrun 2 11
  check "torchrun: the ranks began with step 1 and, started again, with step 10" \
    test "$(grep -oh 'begins with step .*' "$out/$name".node? | sort | uniq -c | tr -s ' ' | paste -sd,)" = " 4 begins with step 1, 4 begins with step 10"
  losses "$out/restarted".node? > "$out/restarted.losses"
  endpoints_are_numbers=yes
  train_with whole 10.9.0.1:29401 /run/shared/torchrun.whole
  losses "$out/whole".node? > "$out/whole.losses"
  check "torchrun: all 20 losses are equal to the last bit" diff "$out/restarted.losses" "$out/whole.losses"
  check "torchrun: there are 20" test "$(wc -l < "$out/whole.losses")" -eq 20
}

run_part() {
  say "$1"
  "part_$1"
}

(($#)) || set -- "${parts[@]}"
for part; do
  [[ " ${parts[*]} " == *" $part "* ]] || { say "unknown part '$part'; known: ${parts[*]}"; exit 2; }
done
ranks=$root/build/openmpi/bin
[[ -x $ranks/host_rank ]] || ranks=$root/build/mpich/bin
for library in openmpi mpich; do
  [[ -x $root/build/$library/bin/mpi_ranks ]] || left_out+=("$library")
done
make_hosts
for part; do run_part "$part"; done
((failures == 0)) || { say "$failures checks failed; the output of all ranks is in $out"; exit 1; }
say "all checks on two hosts passed${left_out:+, but not run: ${left_out[*]}}"
