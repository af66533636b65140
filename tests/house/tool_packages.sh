#!/bin/bash
# tool_packages.sh DEV PACKAGE...: `./dev` installs these packages before it builds the tool.
set -eu
eval "$(sed -n '/^for_[a-z]*=(.*)$/p' "$1")"
shift
(($# > 0)) || { echo "no library of the tool was found" && exit 1; }
status=0
for package in "$@"; do
  printf '%s\n' "${for_tool[@]}" | grep -qxF "$package" || { echo "for_tool in ./dev lacks $package" && status=1; }
done
exit "$status"
