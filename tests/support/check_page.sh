#!/bin/sh
# check_page.sh PAGE.html ...: lists what does not fit or does not work in a window of 1,280 pixels, by Debian's
# chromium-headless-shell. Exits with 1 if there is anything.
set -u
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 1 ] || { sed -n 2,3p "$0" >&2; exit 2; }
command -v chromium-headless-shell >/dev/null ||
  { echo "check_page.sh: chromium-headless-shell is not installed (Debian package of that name)" >&2; exit 2; }
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
status=0
for page; do
  # In front, so that it also hears of errors in the page's own scripts.
  { echo '<!doctype html><meta charset="utf-8"><script>'; cat "$here/check_page.js"; echo '</script>'; cat "$page"; } > "$folder/page.html"
  chromium-headless-shell --no-sandbox --disable-gpu --hide-scrollbars --window-size=1280,1600 --user-data-dir="$folder/user" \
    --virtual-time-budget=20000 --dump-dom "file://$folder/page.html" > "$folder/dom" 2> "$folder/log"
  if ! grep -q FAULTS "$folder/dom"; then
    echo "$page: the browser gave no answer: $(tail -n 3 "$folder/log")"
    status=1
  elif faults=$(sed -n '/FAULTS/,/^END/p' "$folder/dom" | sed '1d;/^END/d;/^$/d') && [ -n "$faults" ]; then
    echo "$faults" | sed "s|^|$page: |"
    status=1
  fi
done
exit $status
