//! The stack is a shared library, which `build.sh` puts beside the program.

fn main() {
    println!("cargo:rustc-link-arg=-Wl,-rpath,$ORIGIN");
}
