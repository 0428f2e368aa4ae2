//! No agent: there are no probes, or no such sockets.

use std::path::PathBuf;

use crate::engine::error::Error;

pub(super) fn start_here() -> Result<PathBuf, Error> {
    let problem = if cfg!(probe_backend = "off") {
        "this program was built without probes"
    } else {
        "only Linux has the sockets that tell who connects"
    };
    Err(Error::Agent { problem: problem.to_owned() })
}
