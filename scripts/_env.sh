# Sourced by the other scripts: makes the environment .venv at the repository's root, once, and puts it first on PATH.
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

# ensure_env GROUP: installs the project with an extra (demo or audit, and the control) or with a dependency group (dev, compile).
# The second call costs nothing.
ensure_env() {
    local group=$1 stamp python extras
    stamp=.venv/.wirebroker-$group
    if [ "$stamp" -nt pyproject.toml ] && [ "$stamp" -nt uv.lock ]; then
        return
    fi
    if command -v uv >/dev/null 2>&1 && [ -z "${WIREBROKER_NO_UV:-}" ]; then
        if [ "$group" = dev ]; then
            uv sync --quiet --frozen --group dev >&2
        elif [ "$group" = compile ]; then
            uv sync --quiet --frozen --inexact --no-group dev --group compile >&2
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
        if [ "$group" = dev ] || [ "$group" = compile ]; then
            .venv/bin/python -m pip install --quiet --disable-pip-version-check "pip>=25.1" >&2
            extras=; [ "$group" = compile ] || extras="[demo,codecs,control,uvloop]"
            .venv/bin/python -m pip install --quiet --disable-pip-version-check -e ".$extras" --group "$group" >&2
        else
            [ "$group" != audit ] || echo "fetching PySpark and a Java runtime, some 500 MB ..." >&2
            .venv/bin/python -m pip install --quiet --disable-pip-version-check -e ".[$group,control]" >&2
        fi
    fi
    touch "$stamp"
    [ "$group" = dev ] && touch .venv/.wirebroker-demo .venv/.wirebroker-audit .venv/.wirebroker-compile
    return 0
}
