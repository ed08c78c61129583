#!/bin/sh
# install-unleash.sh [VERSION] [DIR]: Unleash's server with what it needs, made once by npm.
#
# Prints the folder on stdout, everything else on stderr. DIR defaults to $UNLEASH_TEST_ENV, then
# ${XDG_CACHE_HOME:-~/.cache}/specgauge/unleash: 200 MB that do not belong in a repository, nor,
# being under the AGPL, in anything that is handed on. The tests want a PostgreSQL besides, which
# Debian has in postgresql.
set -eu

version=${1:-8.2.0}
env=${2:-${UNLEASH_TEST_ENV:-${XDG_CACHE_HOME:-$HOME/.cache}/specgauge/unleash}}
marker=$env/specgauge-unleash-version

if [ "$(cat "$marker" 2>/dev/null)" = "$version" ]; then
    echo "unleash-server $version is in $env already" >&2
    echo "$env"
    exit 0
fi

if ! command -v npm >/dev/null; then
    echo "npm is missing: install Node 20 or newer with it" >&2
    exit 3
fi
rm -f "$marker"
mkdir -p "$env"
echo "installing unleash-server $version into $env" >&2
# It asks for Node 22 and starts on 20: npm only warns.
npm install --prefix "$env" --no-audit --no-fund --loglevel error "unleash-server@$version" >&2

echo "$version" >"$marker"
echo "$env"
