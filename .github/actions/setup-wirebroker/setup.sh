# Fetches the runtime of the release VERSION from the folder URL, checks it against SHA256, puts it on the PATH of the next steps,
# and starts a broker with the TOPICS, if there are any. Only action.yml runs this script, on Linux and macOS.
set -euo pipefail
name=wirebroker-runtime-$VERSION-$(echo "$RUNNER_OS-$RUNNER_ARCH" | tr '[:upper:]' '[:lower:]')
cd "$RUNNER_TEMP"
curl --fail --silent --show-error --location --retry 3 --output "$name.tar.gz" "$URL/$name.tar.gz"
if command -v sha256sum >/dev/null; then sum=$(sha256sum "$name.tar.gz"); else sum=$(shasum -a 256 "$name.tar.gz"); fi
if [ "${sum%% *}" != "$SHA256" ]; then
    echo "::error::$name.tar.gz has the SHA-256 ${sum%% *}; the input sha256 is $SHA256"
    exit 1
fi
tar -xzf "$name.tar.gz"
echo "$RUNNER_TEMP/$name" >>"$GITHUB_PATH"
[ -n "$TOPICS" ] || exit 0

topics=()
for topic in $TOPICS; do topics+=(--topic "$topic"); done
"$RUNNER_TEMP/$name/wirebroker" serve --port 0 --control 0 --ready json "${topics[@]}" >ready.json 2>wirebroker.log &
for _ in $(seq 100); do
    [ ! -s ready.json ] || break
    sleep 0.1
done
value() { sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p" ready.json; }
if [ -z "$(value bootstrap)" ]; then
    echo "::error::wirebroker did not start: $(cat wirebroker.log)"
    exit 1
fi
echo "WIREBROKER_BOOTSTRAP=$(value bootstrap)" >>"$GITHUB_ENV"
echo "WIREBROKER_CONTROL=$(value control)" >>"$GITHUB_ENV"
