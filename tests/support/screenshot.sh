#!/bin/sh
# screenshot.sh PAGE.html PICTURE.png [WIDTH [HEIGHT [light|dark]]]: what a reader sees, by Debian's chromium-headless-shell.
set -eu
[ $# -ge 2 ] || { sed -n 2p "$0" >&2; exit 2; }
command -v chromium-headless-shell >/dev/null ||
  { echo "screenshot.sh: chromium-headless-shell is not installed (Debian package of that name)" >&2; exit 1; }
scheme=1
[ "${5:-light}" = dark ] && scheme=0
exec chromium-headless-shell --no-sandbox --disable-gpu --hide-scrollbars "--blink-settings=preferredColorScheme=$scheme" \
  "--window-size=${3:-1200},${4:-1600}" "--screenshot=$2" "file://$(realpath "$1")"
