#!/usr/bin/env bash
# Builds peers by name: build.sh [quinn|quic-go|s2n-quic|quiche|msquic]… (all of them without a name).
set -eu
cd "$(dirname "$0")"

# bindgen needs libclang, which has a Python package, and the compiler's own headers.
libclang() {
    [ -d .venv ] || python3 -m venv .venv
    .venv/bin/pip install --quiet libclang==18.1.1
    LIBCLANG_PATH=$(.venv/bin/python -c 'import clang, os; print(os.path.join(os.path.dirname(clang.__file__), "native"))')
    BINDGEN_EXTRA_CLANG_ARGS="-I$(cc -print-file-name=include)"
    export LIBCLANG_PATH BINDGEN_EXTRA_CLANG_ARGS
}

for name in ${*:-quinn quic-go s2n-quic quiche msquic}; do
    case $name in
        quic-go) (cd quic-go && nice -n 10 go build -p "${JOBS:-1}" -trimpath -o peer-quic-go .) ;;
        quiche) libclang && (cd quiche && nice -n 10 cargo build --release --locked -j "${JOBS:-1}") ;;
        msquic)
            (cd msquic && nice -n 10 cargo build --release --locked -j "${JOBS:-1}" &&
                cp -L target/release/build/msquic-*/out/lib/libmsquic.so.2 target/release/) ;;
        *) (cd "$name" && nice -n 10 cargo build --release --locked -j "${JOBS:-1}") ;;
    esac
done
