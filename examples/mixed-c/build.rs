//! Compiles the C library. The one line that gives it probes is the name of the builder.

fn main() {
    probe_build::Build::new()
        .files(["c/squeeze.c", "c/lz77.c", "c/huffman.c", "c/bits.c"])
        .compile("squeeze");
}
