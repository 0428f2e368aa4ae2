//! The texts for OpenMP and MPI that this project ships, with programs that count their calls.

use std::path::Path;
use std::process::Command;

use probe_tests::folder::Folder;

use crate::program::{compares, source, with_agent};

/// Compiles a source of this folder, and runs it with a text that ships. Compares its own counts.
fn counts_exactly(compiler: &str, flag: &str, name: &str, module: &str) {
    let folder = Folder::new(name);
    let program = folder.join(name);
    let mut command = Command::new(compiler);
    command.args(["-O2", flag]).arg(source(&format!("{name}.c"))).arg("-o").arg(&program);
    // Not each system has the runtime, or its headers.
    if !command.output().is_ok_and(|it| it.status.success()) {
        return eprintln!("{compiler} can't make {name}");
    }
    let texts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../probe-runtime/modules");
    let mut command = with_agent(&program, &format!("{module}::**=count"));
    // Open MPI starts no other program, which would report, too.
    command.env("OMPI_MCA_ess_singleton_isolated", "1");
    compares(command.env("PROBES_MODULES", texts.join(format!("{name}.probes"))), &folder);
}

#[test]
fn threads_of_openmp_are_counted_exactly() {
    counts_exactly("gcc", "-fopenmp", "openmp", "omp");
}

#[test]
fn a_rank_of_mpi_is_counted_exactly() {
    counts_exactly("mpicc", "-pthread", "mpi", "mpi");
}
