#!/bin/sh
# install.sh [DIR]: Grafana's TypeScript types and a compiler, installed once by npm.
#
# Prints the folder on stdout, everything else on stderr. DIR defaults to $GRAFANA_TYPES, then
# ${XDG_CACHE_HOME:-~/.cache}/specgauge/grafana-types: 26 MB that do not belong in a repository.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
env=${1:-${GRAFANA_TYPES:-${XDG_CACHE_HOME:-$HOME/.cache}/specgauge/grafana-types}}

if ! command -v npm >/dev/null; then
    echo "npm is missing: install Node 20 or newer with it" >&2
    exit 3
fi
mkdir -p "$env"
cp "$here/package.json" "$env/"
npm install --prefix "$env" --no-audit --no-fund --loglevel error >&2
echo "$env"
