#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds the CUDA adapter, checks it on the GPU of this machine and measures it; `./dev gpu` runs this. It needs a CUDA
# toolkit, g++ and bash, and no network. NCCL, CUB, compute-sanitizer and PyTorch are used if they are installed. With --fake
# the same runs on the CUDA runtime and NCCL of the tests, on any machine that has the toolkit. With --dry-run all of it is
# built for a GPU, in a copy of the tree without .git, and each program runs until it finds that there is no GPU; `quick`
# leaves out what takes long to compile. Results are in build/gpu:
# results.md, results.json, and the output of each part. If $OUT is set, they are also copied there after each part, so that
# an interrupted run keeps what it found. The exit status is 0 if all checks passed; measurements do not affect it.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$root/build/gpu
budget=470  # seconds in all
limit() { local left=$((budget - SECONDS)); echo $(($1 < left ? $1 : left > 1 ? left : 1)); }
say() { printf '%s\n' "dev gpu: $*" >&2; }
fail() { say "$*"; exit 1; }

fake='' dry='' quick=''
case $* in
  "") ;;
  --fake) fake=yes ;;
  --dry-run) dry=yes ;;
  "--dry-run quick") dry=yes quick=yes ;;
  *) fail "usage: ./dev gpu [--fake | --dry-run [quick]]" ;;
esac

# What is needed is copied, so that nothing else of the project is.
run_in_copy() {
  local tree=$root/build/gpu-dry
  rm -rf "$tree"
  mkdir -p "$tree/tests" "$tree/examples"
  cp -r "$root/dev" "$root/include" "$root/bench" "$tree"
  cp -r "$root/tests/gpu" "$root/tests/support" "$tree/tests"
  cp -r "$root/examples/frameworks" "$tree/examples"
  CLEAVE_GPU_COPY=yes exec bash "$tree/dev" gpu "$@"
}
[[ ! $dry || ${CLEAVE_GPU_COPY:-} ]] || run_in_copy "$@"

# row PART WHAT EXPECTED MEASURED VERDICT
row() {
  printf '%s\t%s\t%s\t%s\t%s\t0\n' "$@" >> "$rows"
  printf '%-8s %s: %s\n' "$5" "$2" "$4"
}

find_toolkit() {
  local folder
  nvcc=$(command -v nvcc) || for folder in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda; do
    [[ -n $folder && -x $folder/bin/nvcc ]] && nvcc=$folder/bin/nvcc && break
  done
  [[ -n $nvcc ]] || fail "no nvcc is here: install the CUDA toolkit, or put its bin folder on the PATH"
  command -v g++ > /dev/null || fail "no g++ is here"
  cuda=$(cd "$(dirname "$(readlink -f "$nvcc")")/.." && pwd)
}

# Where nccl.h and its library are: in the toolkit, the system, or the wheels beside PyTorch.
find_nccl() {
  local folder library
  nccl_header='' nccl_library=''
  for folder in "$cuda" /usr/local /usr "$(python3 -c 'import nvidia.nccl as n; print(n.__path__[0])' 2> /dev/null)"; do
    [[ -n $folder && -f $folder/include/nccl.h ]] || continue
    for library in "$folder"/lib{64,,/x86_64-linux-gnu,/aarch64-linux-gnu}/libnccl.so{,.2}; do
      [[ -f $library ]] || continue
      nccl_header=$folder/include nccl_library=$library
      return
    done
  done
}

# What ranks that are processes meet with; without it they are left out, as without NCCL.
find_sodium() {
  [[ $(printf '#include <sodium.h>\nint main() { return sodium_init() < 0; }\n' |
    g++ -x c++ - -lsodium -o /dev/null 2>&1) ]] || return 0
  nccl_header='' missing='no sodium.h with its library is here'
}

# What the first Python whose torch has CUDA says: itself, the folder of torch, its ABI, its own NCCL if it has one, which may be
# newer than that of the system. To import torch takes up to 20 s: once,
# beside the compilers.
look_for_torch() {
  local each
  [[ ! $fake ]] || return
  [[ ! $quick ]] || return
  for each in "$root/build/venv-torch/bin/python" python3 /usr/bin/python3; do
    CLEAVE_GPU_DRY=$dry "$each" -c '
import os, sys, torch
assert torch.version.cuda if os.environ["CLEAVE_GPU_DRY"] else torch.cuda.is_available()
try:
  import nvidia.nccl as n
  nccl = list(n.__path__)[0]
except ImportError:
  nccl = ""
print(sys.executable, os.path.dirname(torch.__file__), int(torch._C._GLIBCXX_USE_CXX11_ABI), nccl, sep="\n")' 2> /dev/null && return
  done
}
find_torch() {
  local abi
  { read -r python; read -r torch; read -r abi; read -r torch_nccl; } < "$out/torch.txt" || python='' torch=''
  torch_headers="-isystem $torch/include -isystem $torch/include/torch/csrc/api/include -D_GLIBCXX_USE_CXX11_ABI=$abi"
}

# object NAME COMMAND...: compiles beside others, as many at once as there are processors. Where it fails, the object is
# not there, and what needs it is left out.
object() {
  local name=$1
  shift
  while (($(jobs -rp | wc -l) >= processors)); do wait -n; done
  { "$@" -o "$out/objects/$name.o" > "$out/log/compile-$name.txt" 2>&1 || rm -f "$out/objects/$name.o"; } &
}
# Sources that take long: a quick run leaves out the programs that are made of them.
is_left_out() { [[ $quick && $1 =~ ^(tests/gpu/(rank|loopback)|bench/gpu/(pipeline|by_cub)|examples/.*)\.(cpp|cu)$ ]]; }
by_gxx() {  # SOURCE [FLAG...]
  ! is_left_out "$1" || return 0
  object "${1//\//_}" $cached g++ "${of_host[@]}" "${@:2}" -c "$root/$1"
}
by_nvcc() {  # SOURCE [FLAG...]
  ! is_left_out "$1" || return 0
  object "${1//\//_}" $cached "$nvcc" "${of_device[@]}" "${@:2}" -c "$root/$1"
}

# program NAME SOURCE...: 1, and a row, where something of it could not be built. Those of gpu_torch* are skipped: what another's
# library does not go with is no fault of what is checked.
program() {
  local name=$1 source objects=() linked library verdict=FAILED
  shift
  [[ $name != gpu_torch* ]] || verdict=skipped
  ! is_left_out "$1" || { row build "$name" "" "a quick run leaves it out" skipped; return 1; }
  for source in "$@"; do
    source=${source//\//_}
    if [[ ! -f $out/objects/$source.o ]]; then
      row build "$name" "is built" "$(grep -m 1 -E 'error|fatal' "$out/log/compile-$source.txt" | cut -c 1-300)" $verdict
      return 1
    fi
    objects+=("$out/objects/$source.o")
  done
  if [[ $fake ]]; then
    linked=(g++ "${objects[@]}" "${fakes[@]}" -lpthread -ldl)
    [[ ! $nccl_header ]] || linked+=(-lsodium)
  else
    linked=("$nvcc" "${objects[@]}" -lpthread)
    library=$nccl_library
    [[ $name != gpu_torch* || ! $torch_nccl ]] || library=$torch_nccl/lib/libnccl.so.2
    [[ $name != gpu_rank && ($name != gpu_torch* || ! $library) ]] ||
      linked+=(-lsodium -Xlinker "$library" -Xlinker -rpath -Xlinker "$(dirname "$library")")
    [[ $name != gpu_torch* ]] || linked+=(-cudart shared -L"$torch/lib" -Xlinker --no-as-needed -ltorch_cuda -ltorch_cpu -ltorch -lc10_cuda
      -lc10 -Xlinker -rpath -Xlinker "$torch/lib" -Xlinker -rpath -Xlinker "$cuda/lib64")
  fi
  if ! "${linked[@]}" -o "$out/bin/$name" > "$out/log/link-$name.txt" 2>&1; then
    row build "$name" "is built" "$(grep -m 1 -E 'error|undefined|cannot find' "$out/log/link-$name.txt" | cut -c 1-300)" $verdict
    return 1
  fi
}

build() {
  local source
  cached=$(command -v ccache) || cached=
  of_host=(-std=c++20 -O2 -I"$root/include" -I"$root/tests" -I"$root/bench" -isystem "$cuda/include" -Wall -Wextra)
  [[ ! $dry ]] || of_host[1]=-O0
  of_device=(-std=c++20 -O3 -arch="sm_$architecture" --expt-relaxed-constexpr -I"$root/include" -I"$root/tests")
  if [[ $fake ]]; then
    of_host[1]=-O1
    by_nvcc tests/support/cuda/library_kernels.cu
    fakes=()
    for source in "$root"/tests/support/cuda/*.cpp; do
      source=${source#"$root/"}
      by_gxx "$source"
      fakes+=("$out/objects/${source//\//_}.o")
    done
    by_gxx tests/gpu/spin_on_fake.cpp
    for source in tests_gpu_spin_on_fake.cpp tests_gpu_spin.cu tests_support_cuda_linear_kernels.cu tests_support_cuda_library_kernels.cu; do
      fakes+=("$out/objects/$source.o")
    done
    by_gxx bench/gpu/without_cub.cpp
    by_gxx bench/gpu/without_packs.cpp
    [[ ! $nccl_header ]] || by_gxx tests/gpu/ranks_on_fake.cpp -idirafter "$nccl_header"
  else
    by_nvcc tests/gpu/kernels.cu
    by_nvcc bench/gpu/by_cub.cu --extended-lambda
    by_nvcc bench/gpu/packs.cu -I"$root/bench"
    by_gxx bench/gpu/without_cub.cpp
    [[ ! $nccl_header ]] || by_gxx tests/gpu/rank.cpp -idirafter "$nccl_header"
    by_nvcc examples/frameworks/cuda/kernels.cu
    by_gxx examples/frameworks/cuda/threads.cpp
  fi
  by_gxx tests/gpu/loopback.cpp
  by_nvcc tests/support/cuda/linear_kernels.cu
  by_nvcc tests/gpu/spin.cu
  by_gxx tests/gpu/kernels.cpp
  by_gxx bench/gpu/pipeline.cpp
  by_gxx bench/gpu/sums.cpp
  wait "$torch_search"
  find_torch
  # shellcheck disable=SC2086
  [[ ! $torch ]] || by_gxx examples/frameworks/cuda/torch.cpp -O0 $torch_headers
  # shellcheck disable=SC2086
  [[ ! $torch || ! $nccl_header ]] || by_gxx examples/frameworks/cuda/torch_replayed.cpp -O0 $torch_headers -idirafter "${torch_nccl:-$(dirname "$nccl_header")}/include"
  wait

  # All that is bound to the fake runtime is in each program there.
  local kernels=(tests/gpu/kernels.cu) linear=(tests/support/cuda/linear_kernels.cu) spin=(tests/gpu/spin.cu) cub=bench/gpu/by_cub.cu packs=bench/gpu/packs.cu
  [[ ! $fake ]] || kernels=() linear=() spin=() packs=bench/gpu/without_packs.cpp
  [[ -f $out/objects/bench_gpu_by_cub.cu.o ]] || cub=bench/gpu/without_cub.cpp
  program gpu_kernels tests/gpu/kernels.cpp "${kernels[@]}"
  program gpu_loopback tests/gpu/loopback.cpp "${kernels[@]}" "${linear[@]}" "${spin[@]}"
  program gpu_sums bench/gpu/sums.cpp "${kernels[@]}" "$cub" "$packs"
  program gpu_pipeline bench/gpu/pipeline.cpp "${kernels[@]}" "${spin[@]}"
  [[ ! $nccl_header ]] || program gpu_rank "$ranks" "${kernels[@]}" "${linear[@]}"
  [[ $fake ]] || program gpu_threads examples/frameworks/cuda/threads.cpp examples/frameworks/cuda/kernels.cu "${kernels[@]}"
  [[ ! $torch ]] || program gpu_torch examples/frameworks/cuda/torch.cpp "${kernels[@]}"
  [[ ! $torch || ! $nccl_header ]] || program gpu_torch_replayed examples/frameworks/cuda/torch_replayed.cpp "${kernels[@]}"
}

# run_limited NAME SECONDS COMMAND...: what it says goes to the log too. Its status; $allowed is the seconds it had.
run_limited() {
  local name=$1
  allowed=$(limit "$2")
  shift 2
  say "$name"
  timeout -k 5 "$allowed" "$@" 2>&1 | tee "$out/log/$name.txt"
  return "${PIPESTATUS[0]}"
}

# phase NAME SECONDS COMMAND...: a row where it fails or takes longer. Where it was not built its row says why.
phase() {
  local name=$1
  [[ -x $3 ]] || return 0
  if [[ $dry ]]; then run_dry "$@"; return; fi
  run_limited "$@"
  fail_row "$name" $?
}
# run_dry NAME SECONDS COMMAND...: it is to find that there is no GPU, and to say so.
run_dry() {
  local name=$1 said
  run_limited "$@" > /dev/null
  said=$(grep -m 1 -E 'cudaError(NoDevice|InsufficientDriver)|no CUDA-capable device|driver version is insufficient' "$out/log/$name.txt" | cut -c 1-200)
  row "dry run" "${3##*/}" "says that there is no GPU" "${said:-$(tail -n 1 "$out/log/$name.txt" | cut -c 1-200)}" "$([[ $said ]] && echo passed || echo FAILED)"
}
fail_row() {  # NAME STATUS
  case $2 in
    0) ;;
    124 | 137) row "$1" "the whole of it" "ends within $allowed s" "it does not" FAILED ;;
    *) row "$1" "the whole of it" "ends well" "status $2: $(tail -n 1 "$out/log/$1.txt" | cut -c 1-300)" FAILED ;;
  esac
}

# start_rank R OF SCHEDULE [FILE]: in the background. A host name each has NCCL take ranks of one GPU for ranks of several
# machines. Kernels are loaded when the program begins: to load one later, CUDA may wait for those that wait for messages.
start_rank() {
  RANK=$1 WORLD_SIZE=$2 LOCAL_RANK=$1 LOCAL_WORLD_SIZE=$2 CLEAVE_KEY=$key NCCL_HOSTID=host$1 NCCL_NET=Socket \
    NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 NCCL_MAX_CTAS=2 NCCL_RAS_ENABLE=0 CUDA_MODULE_LOADING=EAGER \
    "$out/bin/gpu_rank" "${@:3}" > "$out/log/rank$1.txt" 2>&1 &
  pids[$1]=$!
}
new_key() { key=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n'); }

# wait_for SECONDS PID...: status 1 where one of them is still there; it is ended then.
wait_for() {
  local until=$((SECONDS + $(limit "$1"))) pid late=0
  shift
  for pid in "$@"; do
    while kill -0 "$pid" 2> /dev/null; do
      if ((SECONDS >= until)); then
        kill -9 "$pid" 2> /dev/null
        late=1
      fi
      sleep 0.02
    done
  done
  return $late
}

# What a message costs the host; rank 0 writes the rows.
run_messages() {
  local r
  say "messages between 2 processes of one GPU"
  pids=()
  new_key
  for r in 0 1; do start_rank "$r" 2 messages; done
  if wait_for 60 "${pids[@]}" && wait "${pids[0]}" && wait "${pids[1]}"; then
    cat "$out/log/rank0.txt"
  else
    tail -n 2 "$out/log/rank0.txt" "$out/log/rank1.txt"
    row processes "a message through NCCL, time of the host" "is measured" "$(tail -n 1 "$out/log/rank0.txt" | cut -c 1-300)" FAILED
  fi
}

run_processes() {  # SCHEDULE RANKS
  local schedule=$1 ranks=$2 r wrong=0 measured
  say "$schedule on $ranks processes of one GPU"
  pids=()
  new_key
  local begin=${EPOCHREALTIME/[.,]/}
  for ((r = 0; r < ranks; ++r)); do start_rank "$r" "$ranks" "$schedule"; done
  wait_for 60 "${pids[@]}" || wrong=1
  measured=$(((${EPOCHREALTIME/[.,]/} - begin) / 1000))
  for ((r = 0; r < ranks; ++r)); do
    wait "${pids[r]}" || { wrong=1; tail -n 2 "$out/log/rank$r.txt"; cp "$out/log/rank$r.txt" "$out/log/$schedule-$ranks-rank$r.txt"; }
  done
  row processes "$schedule, $ranks processes on one GPU" "results and gradients have the bits of the host" \
    "$([[ $wrong == 0 ]] && echo "equal" || echo "not equal, or not ended"), $measured ms from start to end" \
    "$([[ $wrong == 0 ]] && echo passed || echo FAILED)"
}

# One of four is killed in the middle of a step: the others say which, soon, and end.
run_kill() {
  local r named=0 killed said slowest=0 ended until
  say "kill -9 of one of four processes"
  pids=()
  new_key
  rm -f "$out"/running.*
  for r in 0 1 2 3; do start_rank "$r" 4 1F1B "$out/running.$r"; done
  until=$((SECONDS + $(limit 40)))
  while (($(find "$out" -maxdepth 1 -name 'running.*' | wc -l) < 4 && SECONDS < until)); do sleep 0.1; done
  sleep 0.5
  killed=${EPOCHREALTIME/[.,]/}
  kill -9 "${pids[2]}"
  wait_for 20 "${pids[@]}"
  ended=$(((${EPOCHREALTIME/[.,]/} - killed) / 1000))
  for r in 0 1 3; do
    wait "${pids[r]}"
    said=$(sed -n 's/^at \([0-9]*\) ms: .*rank 2.*/\1/p' "$out/log/rank$r.txt")
    tail -n 1 "$out/log/rank$r.txt"
    cp "$out/log/rank$r.txt" "$out/log/kill-rank$r.txt"
    [[ $said ]] || continue
    ((++named))
    ((said - killed / 1000 <= slowest)) || slowest=$((said - killed / 1000))
  done
  row processes "kill -9 of rank 2 of 4: who names it" "all 3 others, within 2000 ms" "$named, within $slowest ms" \
    "$( ((named == 3 && slowest <= 2000)) && echo passed || echo FAILED)"
  row processes "kill -9 of rank 2 of 4: all have ended" "within 10000 ms" "after $ended ms" \
    "$( ((ended <= 10000)) && echo passed || echo FAILED)"
}

processes() {
  local schedule ranks
  if [[ ! $nccl_header ]]; then
    row processes "ranks that are processes" "" "${missing:-no nccl.h with its library is here}" skipped
  elif [[ ! -x $out/bin/gpu_rank ]]; then
    return  # its row says why
  elif [[ $dry ]]; then
    new_key
    RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 CLEAVE_KEY=$key phase rank 30 "$out/bin/gpu_rank" 1F1B
  elif [[ $fake ]]; then
    for schedule in 1F1B Interleaved1F1B; do
      for ranks in 2 4; do
        phase "$schedule-$ranks" 60 "$out/bin/gpu_rank" "$schedule" "$ranks"
        row processes "$schedule, $ranks ranks, threads here" "results and gradients have the bits of the host" \
          "$(tail -n 1 "$out/log/$schedule-$ranks.txt")" \
          "$(grep -q '^0 results' "$out/log/$schedule-$ranks.txt" && echo passed || echo FAILED)"
      done
    done
    phase messages 60 "$out/bin/gpu_rank" messages 2
    row processes "kill -9 of one of four processes" "" "the fake NCCL connects threads of one process only" skipped
  else
    for schedule in 1F1B Interleaved1F1B; do
      for ranks in 2 4; do run_processes "$schedule" "$ranks"; done
    done
    run_messages
    run_kill
  fi
}

# Where the tool refuses the GPU or the driver, it sums nothing up.
sanitizers() {
  local tool program status found
  program=$(command -v compute-sanitizer || ls "$cuda"/bin/compute-sanitizer "$cuda"/compute-sanitizer/compute-sanitizer 2> /dev/null | head -n 1)
  if [[ $fake || $dry || ! $program ]]; then
    row sanitizers "compute-sanitizer" "" "$([[ $fake || $dry ]] && echo "there is no GPU to watch" || echo "not installed")" skipped
    return
  fi
  [[ -x $out/bin/gpu_kernels ]] || return 0  # its row says why
  for tool in memcheck racecheck; do
    run_limited "$tool" 70 "$program" --tool "$tool" --error-exitcode 9 "$out/bin/gpu_kernels" few
    status=$?
    found=$(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$out/log/$tool.txt" | tail -n 1 | sed 's/^=* *//')
    if [[ ! $found ]] && found=$(grep -m 1 -iE 'not supported|unsupported|internal sanitizer error|unable to|permission' "$out/log/$tool.txt" | sed 's/^=* *//'); then
      row sanitizers "compute-sanitizer --tool $tool" "" "it does not run here: ${found:0:300}" skipped
    else
      fail_row "$tool" "$status"
      row sanitizers "compute-sanitizer --tool $tool" "0 errors" "$found" \
        "$(grep -qE 'SUMMARY: 0 (errors|hazards)' "$out/log/$tool.txt" && echo passed || echo FAILED)"
    fi
  done
}

# What the first launch of each kernel moves: bytes of memory, sectors of 32 bytes a store touches, sectors written.
profile() {
  local kernel program found
  program=$(command -v ncu || ls "$cuda"/bin/ncu 2> /dev/null)
  if [[ $fake || $dry || ! $program ]]; then
    row profile "ncu" "" "$([[ $fake || $dry ]] && echo "there is no GPU to watch" || echo "not installed")" skipped
    return
  fi
  [[ -x $out/bin/gpu_sums ]] || return 0  # its row says why
  mkdir -p "$out/profiled"
  for kernel in accumulate reduce squares; do
    CLEAVE_GPU_ROWS=/dev/null run_limited "ncu-$kernel" 30 "$program" --kernel-name "regex:${kernel}_kernel" --launch-count 1 --kill yes \
      --clock-control none --metrics dram__bytes.sum,l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio,lts__t_sectors_op_write.sum \
      "$out/bin/gpu_sums" "$out/profiled"
    found=$(awk '/^ +(dram__|l1tex__|lts__)/ { printf "%s%s %s", n++ ? ", " : "", $1, $NF; if (NF > 2) printf " %s", $2 }' "$out/log/ncu-$kernel.txt")
    if [[ $found ]]; then
      row profile "${kernel}_kernel, its first launch" "" "$found" seen
    else
      row profile "${kernel}_kernel" "" "ncu measured nothing: $(grep -m 1 -E 'ERR|rror' "$out/log/ncu-$kernel.txt" | cut -c 1-300)" skipped
    fi
  done
}

compare_with_torch() {
  local missing name what
  if [[ ! $torch ]]; then
    row torch "PyTorch's sums beside ours, stages of libtorch" "" \
      "$(if [[ $quick ]]; then echo "a quick run leaves it out"; elif [[ $fake ]]; then echo "there is no GPU for it"; else echo "no Python here has a torch with CUDA"; fi)" skipped
    return
  fi
  if [[ $dry ]]; then
    "$python" -m py_compile "$root/bench/gpu/torch_sums.py" || row torch "bench/gpu/torch_sums.py" "is Python" "it is not" FAILED
  else
    phase torch 60 "$python" "$root/bench/gpu/torch_sums.py" "$out"
  fi
  for name in torch torch_replayed; do
    [[ -x $out/bin/gpu_$name ]] || continue  # its row says why
    what="stages of libtorch (examples/frameworks/cuda/$name.cpp)"
    if missing=$(ldd "$out/bin/gpu_$name" 2>&1 | grep -m 1 'not found'); then
      row libtorch "$what" "" "it does not start:$missing" skipped
      continue
    fi
    phase "lib$name" 40 "$out/bin/gpu_$name"
    [[ ! $dry ]] || continue
    row libtorch "$what" "losses of training in one piece" \
      "$(tail -n 1 "$out/log/lib$name.txt" | cut -c 1-300)" "$(grep -q '^loss' "$out/log/lib$name.txt" && echo seen || echo FAILED)"
  done
}

# What an example prints is what its last lines say.
run_example() {
  [[ -x $out/bin/gpu_threads ]] || return 0
  phase example 30 "$out/bin/gpu_threads"
  [[ ! $dry ]] || return 0
  local promised
  promised=$(sed -n '/^\/\/ It prints:/,$s/^\/\/   //p' "$root/examples/frameworks/cuda/threads.cpp")
  row example "examples/frameworks/cuda/threads.cpp" "prints what it says" "$(wc -l < "$out/log/example.txt") lines" \
    "$([[ $(cat "$out/log/example.txt") == "$promised" ]] && echo passed || echo FAILED)"
}

# What is known so far; $state is where the run is, and nothing once all of it has run.
write_results() {
  local unfinished=${state:+ Unfinished: it was at $state.}
  awk -F '\t' -v about="$about$unfinished" '
    BEGIN { printf "# On a GPU\n\n%s\n\n| | what | expected | measured | |\n|---|---|---|---|---|\n", about }
    { gsub(/\|/, "\\|"); printf "| %s | %s | %s | %s | %s |\n", $1 == part ? "" : $1, $2, $3, $4, $5; part = $1 }' \
    "$rows" > "$out/results.md"
  # Nothing here needs more than these two to be quoted: rows have no other control characters than tabs.
  sed 's/\\/\\\\/g; s/"/\\"/g' "$rows" | awk -F '\t' -v about="$about" -v finished="$([[ $state ]] && echo false || echo true)" '
    BEGIN { gsub(/"/, "", about); printf "{\"on\": \"%s\", \"finished\": %s, \"rows\": [", about, finished }
    { printf "%s\n  {\"part\": \"%s\", \"what\": \"%s\", \"expected\": \"%s\", \"measured\": \"%s\", \"verdict\": \"%s\", \"number\": %s}",
        (NR > 1 ? "," : ""), $1, $2, $3, $4, $5, $6 }
    END { print "\n]}" }' > "$out/results.json"
  if [[ ${OUT:-} && -d ${OUT:-} ]]; then
    cp "$out/results.md" "$out/results.json" "$OUT"
    tail -n 40 "$out"/log/*.txt > "$OUT/logs.txt" 2> /dev/null
  fi
}

# then_run PART COMMAND...: after what was found before it is written.
then_run() {
  state=$1
  write_results
  shift
  "$@"
}

find_toolkit
find_nccl
find_sodium
processors=$(nproc)
rows=$out/rows.txt
rm -rf "$out"
mkdir -p "$out/objects" "$out/bin" "$out/log"
: > "$rows"
look_for_torch > "$out/torch.txt" &
torch_search=$!
export CLEAVE_GPU_ROWS=$rows
export CUDA_DEVICE_MAX_CONNECTIONS=32  # of streams, so that those of four ranks do not wait for each other

if [[ $fake ]]; then
  export CLEAVE_GPU_FAKE=yes
  budget=3000 architecture=90 small=small ranks=tests/gpu/ranks_on_fake.cpp
  about="On the fake runtime of the tests, without a GPU: that all of it runs. Sizes are small, and no time here says anything of a GPU."
elif [[ $dry ]]; then
  budget=3000 architecture=90 small=small ranks=tests/gpu/rank.cpp
  about="A dry run, without a GPU: that all of it is built, and runs until it needs one."
  export CUDA_VISIBLE_DEVICES=-1  # hides the GPUs of a machine that has some
  "$nvcc" -std=c++20 -x c++ -I"$root/include" "$root/tests/gpu/probe.cpp" -o "$out/bin/probe" > "$out/log/probe.txt" 2>&1 ||
    row build probe "is built" "$(grep -m 1 error "$out/log/probe.txt")" FAILED
  phase probe 30 "$out/bin/probe"
else
  small='' ranks=tests/gpu/rank.cpp
  "$nvcc" -std=c++20 -x c++ -I"$root/include" "$root/tests/gpu/probe.cpp" -o "$out/bin/probe" > "$out/log/probe.txt" 2>&1 &&
    "$out/bin/probe" > "$out/log/gpu.txt" 2> "$out/log/no-gpu.txt" ||
    fail "no GPU can be used here ($(tail -n 1 "$out/log/no-gpu.txt" 2> /dev/null || tail -n 3 "$out/log/probe.txt")); ./dev gpu --fake runs the same on the runtime of the tests"
  architecture=$(head -n 1 "$out/log/gpu.txt")
  about="$(tail -n 1 "$out/log/gpu.txt"); $("$nvcc" --version | grep -o 'release [0-9.]*'), commit $(git -C "$root" rev-parse --short HEAD 2> /dev/null || echo unknown)."
fi
say "$about"
say "building with $processors processors"
trap write_results EXIT
trap 'exit 143' TERM INT

# First whether sums are right, then what they take, where time on a GPU is scarce; last what may hang or be refused.
then_run build build
row build "programs" "" "built after $SECONDS s" seen
then_run kernels phase kernels 90 "$out/bin/gpu_kernels" ${fake:+few}
then_run sums phase sums 120 "$out/bin/gpu_sums" "$out" $small
then_run torch compare_with_torch
then_run pipeline phase pipeline 60 "$out/bin/gpu_pipeline"
then_run loopback phase loopback 60 "$out/bin/gpu_loopback"
then_run example run_example
then_run processes processes
then_run sanitizers sanitizers
then_run profile profile

state=
write_results
trap - EXIT
echo
cat "$out/results.md"
echo
wrong=$(cut -f 5 "$rows" | grep -c FAILED)
say "$wrong checks failed, $(cut -f 5 "$rows" | grep -c missed) expectations missed, after $SECONDS s; the table: $out/results.md"
((wrong == 0))
