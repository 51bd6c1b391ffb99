#!/bin/sh
# Prints a page as PDF beside it where a browser is installed; without one nothing fails.
set -eu
page=$1
pdf=${page%.html}.pdf
rm -f "$pdf"
if ! browser=$(command -v chromium || command -v google-chrome); then
  echo "$page: no PDF, since neither chromium nor google-chrome is installed: print the page in any browser"
  exit 0
fi
profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT
if told=$("$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$profile" \
  --no-pdf-header-footer --print-to-pdf="$pdf" "file://$(realpath "$page")" 2>&1) && test -s "$pdf"; then
  echo "$pdf: printed"
else
  echo "$told" >&2
  echo "$page: $browser printed no PDF, for the reason above: print the page in any browser" >&2
  exit 1
fi
