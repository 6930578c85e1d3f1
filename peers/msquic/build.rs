//! Sets the search path of msquic's shared library, which `build.sh` copies to the program's folder.

fn main() {
    println!("cargo:rustc-link-arg=-Wl,-rpath,$ORIGIN");
}
