//! Compiles the C library. The builder's name is the only line that gives the library probes.

fn main() {
    probe_build::Build::new()
        .files(["c/squeeze.c", "c/lz77.c", "c/huffman.c", "c/bits.c"])
        .compile("squeeze");
}
