# Sourced by the other scripts: creates the environment .venv at the repository's root if it does not exist, and puts it first
# on PATH.

# help_if_asked ARGUMENT ...: for --help, prints the comment at the beginning of the script, and ends the script. Scripts call
# this first.
help_if_asked() {
    case "${1:-}" in -h | --help) show_help; exit 0 ;; esac
}
show_help() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$script"; }

script=$(cd "$(dirname -- "$0")" && pwd)/${0##*/}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

python_for_venv() {
    local candidate
    for candidate in "${WIREBROKER_PYTHON:-}" python3.13 python3.12 python3.11 python3 python; do
        [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 || continue
        "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$candidate"; return; }
    done
    return 1
}

# constraints: prints the versions of uv.lock for pip, which cannot read that file.
constraints() {
    .venv/bin/python - <<'END'
import tomllib

for package in tomllib.load(open("uv.lock", "rb"))["package"]:
    if "registry" in package["source"]:
        markers = " or ".join(f"({each})" for each in package.get("resolution-markers", ()))
        print(f"{package['name']}=={package['version']}" + f" ; {markers}" * bool(markers))
END
}

# sync_with_own_uv: installs uv with pip, and the developers' packages with uv, which takes a tenth of pip's time. Fails if uv
# cannot be had, or cannot reach the packages: uv does not read pip's configuration.
sync_with_own_uv() {
    [ -z "${WIREBROKER_NO_UV:-}" ] || return 1
    .venv/bin/python -m pip install --quiet --disable-pip-version-check "uv>=0.9" >&2 || return 1
    .venv/bin/uv sync --quiet --frozen --inexact --group dev >&2 || { echo "uv failed; pip goes on" >&2; return 1; }
}

# ensure_env GROUP: installs the project with an extra (demo or audit, and the control) or with a dependency group (dev,
# compile, docs). A second call does nothing.
ensure_env() {
    local group=$1 stamp python extras is_group=
    case $group in dev | compile | docs) is_group=yes ;; esac
    for stamp in .venv/.wirebroker-dev ".venv/.wirebroker-$group"; do  # the group dev has the packages of all other groups
        if [ "$stamp" -nt pyproject.toml ] && [ "$stamp" -nt uv.lock ]; then
            return
        fi
    done
    if command -v uv >/dev/null 2>&1 && [ -z "${WIREBROKER_NO_UV:-}" ]; then
        if [ "$group" = dev ]; then
            uv sync --quiet --frozen --group dev >&2
        elif [ -n "$is_group" ]; then
            uv sync --quiet --frozen --inexact --no-group dev --group "$group" >&2
        else
            uv sync --quiet --frozen --inexact --no-group dev --extra "$group" --extra control >&2
        fi
    else
        if [ ! -x .venv/bin/python ]; then
            python=$(python_for_venv) || {
                echo "wirebroker needs Python 3.11 or newer, and none was found on this machine." >&2
                exit 2
            }
            echo "making the environment .venv with $("$python" --version) ..." >&2
            "$python" -m venv .venv
        fi
        if [ "$group" = dev ] && sync_with_own_uv; then
            :
        elif [ -n "$is_group" ]; then
            .venv/bin/python -m pip install --quiet --disable-pip-version-check "pip>=25.1" >&2
            extras=; [ "$group" != dev ] || extras="[demo,codecs,control,uvloop]"
            .venv/bin/python -m pip install --quiet --disable-pip-version-check -c <(constraints) -e ".$extras" --group "$group" >&2
        else
            [ "$group" != audit ] || echo "fetching PySpark and a Java runtime, some 500 MB ..." >&2
            .venv/bin/python -m pip install --quiet --disable-pip-version-check -c <(constraints) -e ".[$group,control]" >&2
        fi
    fi
    touch "$stamp"
}
