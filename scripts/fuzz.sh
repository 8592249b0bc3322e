#!/usr/bin/env bash
# Runs every fuzz target of the module for a while, one after the other, and fails with the first
# that finds something. The input that it found is kept in the package's testdata/fuzz.
#
#   scripts/fuzz.sh [duration, 20s by default]
set -euo pipefail

duration=${1:-20s}
count=0
while read -r package dir; do
	# Only names at the start of a line are functions; a package has few of them.
	targets=$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' "$dir"/*_test.go 2>/dev/null || true)
	for target in $targets; do
		echo "fuzz: $package $target for $duration"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$duration" "$package" </dev/null
		count=$((count + 1))
	done
done < <(go list -f '{{.ImportPath}} {{.Dir}}' ./...)
echo "fuzz: $count targets found nothing"
