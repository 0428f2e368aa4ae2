//! Chooses the backend of sites, as `probe-core` does.

fn main() {
    let target = probe_target::Target::of_build_script();
    target.emit(target.backend());
}
