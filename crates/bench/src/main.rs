//! Benchmarks of anabranch beside other QUIC stacks. `cargo run --release -p anabranch-bench -- --help`.

mod memory_pair;
mod receive;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let floor = receive::floor();
    println!("floor {floor:.0}");
    for batch in [10, 50, 150] {
        let row = receive::anabranch(batch)?;
        println!("{} {} {:.0} ns, {:.2}x", row.name, row.batch, row.ns_per_packet, row.ns_per_packet / floor);
    }
    Ok(())
}
