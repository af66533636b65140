#!/bin/sh
# dev.sh ROOT SCRATCH: what `./dev` refuses, in a small checkout whose compilers, CMake and packages are stand-ins. Its path
# has blanks, quotes and a letter of two bytes.
set -eu
root=$1
scratch=$2
[ ! -e "$scratch" ] || chmod -R u+w "$scratch"
rm -rf "$scratch"
checkout="$scratch/sp ace 'one' \"two\" \$x & $(printf '\303\274')"
mkdir -p "$scratch/bin" "$checkout/bench" "$checkout/tests/fuzz" "$checkout/examples/5_stream"
cp "$root/dev" "$checkout/dev"
touch "$checkout/bench/slices.cpp" "$checkout/tests/fuzz/plan.cpp" "$checkout/examples/5_stream/5_stream.cpp" "$scratch/log"

# Each program writes its call to a log. All packages but one are installed.
for program in apt-get cmake sudo g++ ninja; do
  printf '#!/bin/sh\necho "%s $*" >> "%s/log"\n' "$program" "$scratch" > "$scratch/bin/$program"
done
cat > "$scratch/bin/dpkg" << 'END'
#!/bin/sh
[ "$2" = clang-19 ] || echo 'Status: install ok installed'
END
chmod +x "$scratch"/bin/*
PATH="$scratch/bin:/usr/bin:/bin"
LC_ALL=C
export PATH LC_ALL

failed=0
wrong() { echo "FAIL: $*" && failed=1; }
# says EXIT TEXT ARGUMENTS...: runs dev, and requires its exit status and that it prints a text.
says() {
  expected=$1
  text=$2
  shift 2
  status=0
  said=$("$checkout/dev" "$@" 2>&1) || status=$?
  [ "$status" = "$expected" ] || wrong "dev $*: exit $status instead of $expected: $said"
  case $said in *"$text"*) ;; *) wrong "dev $*: expected '$text', found: $said" ;; esac
}
installs_nothing() { [ ! -s "$scratch/log" ] || wrong "called: $(cat "$scratch/log")"; }

# A path, a pattern or two names are no name, which is said before anything is installed.
for name in ../../examples/5_stream/5_stream ./plan 'pl*' 'plan plan' "plan
plan" ''; do
  says 1 "unknown fuzzer '$name'; known: plan" fuzz "$name"
done
for name in ../tests/fuzz/plan ./slices 'slices slices' ''; do
  says 1 "unknown bench '$name'; known: slices" bench "$name"
done
says 1 "unknown check 'format tidy'" check 'format tidy'
says 1 "unknown command '../dev'" ../dev
installs_nothing

# A checkout that was moved or copied with its build folder keeps the folder, and the remedy is said.
mkdir -p "$checkout/build/ci" "$scratch/elsewhere"
for place in "$scratch/gone" "$scratch/elsewhere"; do
  echo "CMAKE_HOME_DIRECTORY:INTERNAL=$place" > "$checkout/build/ci/CMakeCache.txt"
  says 1 "was made for the checkout $place, which was moved or copied; to build anew: rm -r '" cleave --version
  [ -f "$checkout/build/ci/CMakeCache.txt" ] || wrong 'the build folder is gone'
done
installs_nothing
named=
case $said in *"to build anew: rm -r '"*) eval "named=${said##*to build anew: rm -r }" ;; esac
[ "$named" = "$checkout/build" ] || wrong "the remedy does not remove $checkout/build"
rm -r "$checkout/build"

# The tool gets a command that /bin/sh reads.
mkdir -p "$checkout/build/ci/bin" "$checkout/build/venv/bin"
echo "CMAKE_HOME_DIRECTORY:INTERNAL=$checkout" > "$checkout/build/ci/CMakeCache.txt"
printf '#!/bin/sh\nexec /bin/sh -c "$CLEAVE_PYTHON -c a\\ b"\n' > "$checkout/build/ci/bin/cleave"
printf '#!/bin/sh\nprintf "python %%s|" "$@"\n' > "$checkout/build/venv/bin/python"
chmod +x "$checkout/build/ci/bin/cleave" "$checkout/build/venv/bin/python"
touch "$checkout/build/venv/complete"
says 0 'python -c|python a b|' cleave demo
grep -q '^cmake --build' "$scratch/log" || wrong 'the tool is not built'

# A build folder that this user cannot write is named, with its owner and the remedy.
as_other() { "$@"; }
if [ "$(id -u)" = 0 ]; then
  as_other() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
fi
chmod a+rX "$scratch"
if as_other test -x "$checkout/dev"; then
  refused() {  # TEXT
    status=0
    said=$(as_other "$checkout/dev" cleave --version 2>&1) || status=$?
    [ "$status" = 1 ] || wrong "exit $status as another user: $said"
    case $said in *"$1"*) ;; *) wrong "expected '$1', found: $said" ;; esac
  }
  : > "$scratch/log"
  for path in build/ci/CMakeCache.txt build/ci build; do
    chmod -R a+w "$checkout/build"
    chmod a-w "$checkout/$path"
    refused "/$path belongs to $(id -un) and cannot be written; use a checkout of your own, or as that user: rm -r '"
  done
  chmod u+w "$checkout/build"
  rm -r "$checkout/build"
  chmod a-w "$checkout"
  refused " belongs to $(id -un) and cannot be written; use a checkout of your own"
  chmod u+w "$checkout"
  installs_nothing
else
  echo 'not tested: build folders of other users, since they cannot enter this folder'
fi

rm -rf "$scratch"
exit "$failed"
