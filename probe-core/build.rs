//! Chooses the backend of sites.

fn main() {
    let target = probe_target::Target::of_build_script();
    target.emit(target.backend());
}
