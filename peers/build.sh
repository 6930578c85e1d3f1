#!/usr/bin/env bash
# Builds peers by name: build.sh [quinn|noq|quic-go|s2n-quic|quiche|quiceh|h3i|msquic|tquic|aioquic|ngtcp2|x-net|qh3|curl-cffi|masque-go|
# connect-ip-go|boringtun|ns3|guests]… (all but ns3 and the guests of the lab without a name; `guests` are guest-quinn, guest-noq
# and guest-quiche).
set -eu
cd "$(dirname "$0")"
# Peers are measured, too: they are built as their own files say, whatever the project itself is built with. PEERS_QUICK=1 is for
# those who only talk to them: it takes the caller's settings.
if [ "${PEERS_QUICK:-}" != 1 ]; then
    unset CARGO_PROFILE_RELEASE_DEBUG CARGO_PROFILE_RELEASE_LTO CARGO_PROFILE_RELEASE_CODEGEN_UNITS CARGO_PROFILE_RELEASE_OPT_LEVEL
fi

# bindgen needs libclang, which is available as a Python package, and the compiler's own headers.
libclang() {
    [ -d .venv ] || python3 -m venv .venv
    .venv/bin/pip install --quiet libclang==18.1.1
    LIBCLANG_PATH=$(.venv/bin/python -c 'import clang, os; print(os.path.join(os.path.dirname(clang.__file__), "native"))')
    BINDGEN_EXTRA_CLANG_ARGS="-I$(cc -print-file-name=include)"
    export LIBCLANG_PATH BINDGEN_EXTRA_CLANG_ARGS
}

# Writes the program of a peer in Python: launcher NAME PYTHON [OTHER]. With OTHER it is the program of that peer, of whose files
# those of NAME take the place.
launcher() {
    cat >"$1/peer-$1" <<END
#!/bin/sh
folder=\$(dirname "\$(readlink -f "\$0")")
PYTHONPATH="\$folder:\$folder/../${3:-$1}:\$folder/../common/python" exec $2 -P "\$folder/../${3:-$1}/main.py" "\$@"
END
    chmod +x "$1/peer-$1"
}

names="${*:-quinn noq quic-go s2n-quic quiche quiceh h3i msquic tquic aioquic ngtcp2 x-net qh3 curl-cffi masque-go connect-ip-go boringtun}"
for name in ${names/guests/guest-quinn guest-noq guest-quiche}; do
    case $name in
        quic-go | masque-go | connect-ip-go | x-net)
            (cd "$name" && nice -n 10 go build -p "${JOBS:-1}" -trimpath -o "peer-$name" .) ;;
        aioquic | qh3 | curl-cffi)
            [ -d "$name/.venv" ] || python3 -m venv "$name/.venv"
            "$name/.venv/bin/pip" install --quiet --requirement "$name/requirements.txt"
            launcher "$name" '"$folder/.venv/bin/python"' "${name/qh3/aioquic}" ;;
        ngtcp2)
            if ! [ -x /usr/bin/gtlsclient ] || ! [ -x /usr/sbin/gtlsserver ]; then
                if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
                    echo "skipped: ngtcp2 needs the Debian packages ngtcp2-client and ngtcp2-server, and root to install them" >&2
                    continue
                fi
                apt-get install --quiet --quiet --yes ngtcp2-client ngtcp2-server >/dev/null
                # The package starts its server as a service, which is not wanted here.
                if command -v systemctl >/dev/null; then systemctl disable --now --quiet ngtcp2d.service || true; fi
            fi
            launcher ngtcp2 python3 ;;
        quiche) libclang && (cd quiche && nice -n 10 cargo build --release --locked -j "${JOBS:-1}") ;;
        # quiceh links the functions of aws-lc by their names without a prefix.
        quiceh)
            libclang && (cd quiceh &&
                AWS_LC_SYS_NO_PREFIX=1 nice -n 10 cargo build --release --locked -j "${JOBS:-1}") ;;
        # ns-3 is a network simulator, for `cargo xtask model`. The other flags of pkg-config name libraries that Debian does not provide.
        ns3)
            c++ -std=c++17 -O2 -Wall -Wextra -o ns3/peer-ns3 ns3/train.cc \
                $(pkg-config --cflags --libs-only-l ns3-point-to-point) ;;
        # A guest of the lab uses the build folder of its stack's peer, so that TLS is built once for both.
        guest-*)
            if [ "$name" = guest-quiche ]; then libclang; fi
            (cd "$name" && mkdir -p target/release && shared=../${name#guest-}/target &&
                CARGO_TARGET_DIR=$shared nice -n 10 cargo build --release --locked -j "${JOBS:-1}" &&
                cp "$shared/release/$name" target/release/) ;;
        h3i) libclang && (cd h3i && CARGO_TARGET_DIR=../quiche/target nice -n 10 cargo build --release --locked -j "${JOBS:-1}") ;;
        msquic)
            (cd msquic && nice -n 10 cargo build --release --locked -j "${JOBS:-1}" &&
                cp -L target/release/build/msquic-*/out/lib/libmsquic.so.2 target/release/) ;;
        *) (cd "$name" && nice -n 10 cargo build --release --locked -j "${JOBS:-1}") ;;
    esac
done
