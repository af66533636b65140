#!/bin/sh
# Runs a program with the first Python that has a part of torch: that of `./dev pytorch`, or the system's.
#   sh with_torch.sh PART PROGRAM ...     PART is a folder of the package: fx, distributed/pipelining
root=$(cd "$(dirname "$0")/../.." && pwd)
part=$1
shift
for python in "$root/build/venv-torch/bin/python" /usr/bin/python3 python3; do
  # Looked up and not imported, which takes seconds.
  "$python" - "$part" 2> /dev/null << 'END' && exec "$python" "$@"
import importlib.util, os, sys
torch = importlib.util.find_spec("torch")
sys.exit(not (torch and os.path.exists(os.path.join(torch.submodule_search_locations[0], sys.argv[1]))))
END
done
echo "skipped: no Python here has torch/$part; ./dev pytorch fetches it" >&2
exit 1
