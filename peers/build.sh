#!/usr/bin/env bash
# Builds peers by name: build.sh [quinn|quic-go|s2n-quic|quiche|msquic|aioquic]… (all of them without a name).
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

# The program of a peer in Python: launcher NAME PYTHON.
launcher() {
    cat >"$1/peer-$1" <<END
#!/bin/sh
folder=\$(dirname "\$(readlink -f "\$0")")
PYTHONPATH="\$folder/../common/python" exec $2 "\$folder/main.py" "\$@"
END
    chmod +x "$1/peer-$1"
}

for name in ${*:-quinn quic-go s2n-quic quiche msquic aioquic}; do
    case $name in
        quic-go) (cd quic-go && nice -n 10 go build -p "${JOBS:-1}" -trimpath -o peer-quic-go .) ;;
        aioquic)
            [ -d aioquic/.venv ] || python3 -m venv aioquic/.venv
            aioquic/.venv/bin/pip install --quiet --requirement aioquic/requirements.txt
            launcher aioquic '"$folder/.venv/bin/python"' ;;
        quiche) libclang && (cd quiche && nice -n 10 cargo build --release --locked -j "${JOBS:-1}") ;;
        msquic)
            (cd msquic && nice -n 10 cargo build --release --locked -j "${JOBS:-1}" &&
                cp -L target/release/build/msquic-*/out/lib/libmsquic.so.2 target/release/) ;;
        *) (cd "$name" && nice -n 10 cargo build --release --locked -j "${JOBS:-1}") ;;
    esac
done
