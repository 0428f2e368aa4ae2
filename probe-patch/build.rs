//! Decides whether this target's code is patched. The backend is never `off`: a program without
//! probes still has code to patch.

fn main() {
    let target = probe_target::Target::of_build_script();
    target.emit(target.patching());
}
