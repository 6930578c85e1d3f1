#!/bin/sh
# Entry point of an endpoint of the QUIC interop runner: passes its environment on to `anabranch interop`.
# Exit status: 0 success, 1 failure, 127 unknown TESTCASE.
set -eu

anabranch=${ANABRANCH_BIN:-anabranch}
logs=${ANABRANCH_LOGS:-/logs}

if ! command -v "$anabranch" >/dev/null; then
    echo "$anabranch is missing" >&2
    exit 1
fi

# An unknown case ends here, before anything has been set up.
"$anabranch" interop --check

if [ -x /setup.sh ]; then
    /setup.sh
fi
if [ "$ROLE" = client ] && [ -x /wait-for-it.sh ]; then
    /wait-for-it.sh sim:57832 -s -t 30
fi
if [ -d "$logs" ] && [ -w "$logs" ]; then
    exec >>"$logs/$ROLE.log" 2>&1
fi
exec "$anabranch" interop
