# Sourced after _env.sh by the scripts that build a release: $python, $tools (an environment with build, twine and shiv), $work (removed at
# the end), and pip ENVIRONMENT ARGUMENT ...
python=$(python_for_venv) || { echo "${0##*/} needs Python 3.11 or newer, and none was found on this machine." >&2; exit 2; }
# A wheel is built for the Python that builds it, so each version of Python has its own tools.
tools=${XDG_CACHE_HOME:-$HOME/.cache}/wirebroker/release-tools-$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bin_of() { if [ -d "$1/Scripts" ]; then echo "$1/Scripts"; else echo "$1/bin"; fi; }  # Windows
pip() { "$(bin_of "$1")/python" -m pip --disable-pip-version-check --quiet "${@:2}"; }

if ! [ "$tools/complete" -nt scripts/release_parts/tools.sh ] || ! [ "$tools/complete" -nt scripts/compile_parts/build.txt ]; then
    "$python" -m venv --clear "$tools"
    pip "$tools" install --require-hashes -r scripts/compile_parts/build.txt
    pip "$tools" install "pip>=25.1" build==1.3.0 twine==6.2.0 shiv==1.0.8
    touch "$tools/complete"
fi
