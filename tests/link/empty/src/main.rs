//! A program without any probe.

fn main() {
    transcript::run(|| ());
}
