//! What selectors can be asked about: definitions and listed probes.

use super::Subject;
use crate::abi::{Definition, Kind};
use crate::registry::ProbeInfo;

macro_rules! subjects {
    ($($ty:ty, $this:ident => $group:expr;)*) => { $(
        impl Subject for $ty {
            fn group(&self) -> Option<&str> {
                let $this = self;
                $group
            }

            fn path(&self) -> &str {
                self.path()
            }

            fn kind(&self) -> Kind {
                self.kind()
            }

            fn file(&self) -> &str {
                self.file()
            }

            fn line(&self) -> u32 {
                self.line()
            }
        }
    )* };
}

subjects! {
    Definition, definition => definition.note("group");
    ProbeInfo, info => info.group();
}
