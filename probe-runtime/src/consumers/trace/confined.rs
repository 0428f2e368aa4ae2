//! Traces that clients of this process attach: none writes to a file by its name.

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::{Keep, Trace};
use crate::engine::error::Error;

impl Trace {
    /// Lets the trace write to this open file only, whose name chooses the format, or to none.
    pub(crate) fn confine(&mut self, opened: Option<(&Arc<File>, &Path)>) -> Result<(), Error> {
        let named = [
            ("map", self.rings_in.is_some()),
            ("panic", self.panics_to.is_some()),
            ("file", !self.is_in_memory() && !self.follows_report),
        ];
        let refused = |problem: String| Err(Error::Consumer(problem.into()));
        if let Some((option, _)) = named.iter().find(|(_, is_named)| *is_named) {
            return refused(format!(
                "`{option}` names a file, which the program itself must do: PROBES; a client opens its files itself"
            ));
        }
        match opened {
            Some(_) if self.is_in_memory() => refused(
                "this trace stays in memory; attach it without a file, and take a snapshot".to_owned(),
            ),
            None if !self.is_in_memory() => refused(
                "this trace needs a file that the client opens; to keep it in memory, write `trace(flight)`"
                    .to_owned(),
            ),
            None => Ok(()),
            Some((file, name)) => {
                self.opened = Mutex::new(Some(Arc::clone(file)));
                (self.keep, self.follows_report) = (Keep::File(name.to_owned()), false);
                Ok(())
            }
        }
    }
}
