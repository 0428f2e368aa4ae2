//! bpftrace, where it can trace.

use std::process::Command;

/// Why bpftrace can't trace here, if so. It takes root, and a kernel that lets it.
#[must_use]
pub fn missing() -> Option<String> {
    match Command::new("bpftrace").args(["-e", "BEGIN { exit(); }"]).output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(format!("bpftrace: {}", String::from_utf8_lossy(&output.stderr))),
        Err(error) => Some(format!("bpftrace: {error}")),
    }
}
