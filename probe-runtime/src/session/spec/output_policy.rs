//! The files that consumers write besides their reports, and who may name them.

#[cfg(probe_agent)]
use std::any::Any;
#[cfg(probe_agent)]
use std::fs::File;
use std::path::Path;
#[cfg(probe_agent)]
use std::path::PathBuf;
#[cfg(probe_agent)]
use std::sync::Arc;

#[cfg(probe_agent)]
use super::reporter::Reporter;
#[cfg(all(probe_agent, feature = "trace"))]
use crate::consumers::Trace;
#[cfg(probe_agent)]
use crate::engine::error::Error;

/// The files that a consumer may write.
pub(crate) enum OutputPolicy<'a> {
    /// Those that its options name, or else some in the working directory.
    Anywhere,
    /// The same, or else some beside the file of its report.
    Beside(&'a Path),
    /// None by a name: a client that could not open a file itself must not have it written. But
    /// maybe one that the client has opened.
    #[cfg(probe_agent)]
    Only(Option<Opened>),
}

/// A file that a client has opened, and its name, which chooses the format.
#[cfg(probe_agent)]
#[derive(Clone)]
#[cfg_attr(not(feature = "trace"), expect(dead_code, reason = "traces alone write files"))]
pub(crate) struct Opened {
    pub(crate) file: Arc<File>,
    pub(crate) name: PathBuf,
}

/// Lets a consumer of a client write this file only, or none.
#[cfg(probe_agent)]
pub(super) fn confine<C: Reporter>(consumer: &mut C, opened: Option<&Opened>) -> Result<(), Error> {
    let any: &mut dyn Any = consumer;
    #[cfg(feature = "trace")]
    if let Some(trace) = any.downcast_mut::<Trace>() {
        return trace.confine(opened.map(|it| (&it.file, it.name.as_path())));
    }
    let _ = any;
    refuse(C::NAME, opened)
}

/// Refuses the file of a client for a consumer that writes none.
#[cfg(probe_agent)]
pub(super) fn refuse(consumer: &str, opened: Option<&Opened>) -> Result<(), Error> {
    match opened {
        None => Ok(()),
        Some(_) => {
            Err(Error::Consumer(format!("`{consumer}` writes no file while it runs; `trace` does").into()))
        }
    }
}
