#!/bin/sh
# Prepares a release in a clean clone: version, changelog, archives and their checks (build_dist.sh), a
# commit with a tag. It uploads nothing. Where a check fails, the files are as before.
#
#   release.sh PYTHON VERSION
set -eu
python=$1 version=$2
files="pike_mixing/__init__.py CITATION.cff CHANGELOG.md"

fail() { echo "release: $*" >&2; exit 1; }

echo "$version" | grep -Eq '^[0-9]+\.[0-9]+\.[0-9]+$' || fail "give three numbers: make release VERSION=1.2.3"
[ -z "$(git status --porcelain)" ] || fail "there are changes that are not committed (git status)"
! git rev-parse -q --verify "refs/tags/v$version" >/dev/null || fail "the tag v$version is there already"
grep -q '^## Unreleased$' CHANGELOG.md || fail "CHANGELOG.md has no heading '## Unreleased'"

ended() {
  code=$?
  [ $code = 0 ] || { git checkout -q HEAD -- $files; fail "failed; see above ($files are as before)"; }
}
trap ended EXIT
trap 'exit 130' INT TERM

sed -i.bak "s/^__version__ = .*/__version__ = \"$version\"/" pike_mixing/__init__.py
sed -i.bak "s/^\( *\)version: .*/\1version: $version/" CITATION.cff
sed -i.bak "s/^## Unreleased\$/&\\
\\
## $version ($(date +%F))/" CHANGELOG.md
for file in $files; do rm "$file.bak"; done

workflow/build_dist.sh "$python" "$version"

git commit -qm "release: $version" -- $files
git tag -a -m "$version" "v$version"
echo "release: v$version is committed and tagged, its archives are in dist. Next:
  git push --follow-tags
Then .github/workflows/release.yml builds them again from the tag, attests and uploads them."
