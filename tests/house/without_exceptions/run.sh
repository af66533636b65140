#!/bin/sh
# A program without exceptions cuts a graph, and ends with the text of an error where that would be thrown:
#   run.sh PROGRAM
set -eu
"$1"
status=0
said=$(sh -c 'ulimit -c 0; "$1" fault' sh "$1" 2>&1) || status=$?
if [ "$status" -ne 134 ] || ! echo "$said" | grep -q '^cleave: adapter: node #1 is listed after a user of its result'; then
  echo "$said"
  echo "-- status $status; expected the text of the error, and 134, which is SIGABRT"
  exit 1
fi
