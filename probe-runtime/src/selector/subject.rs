//! What selectors can be asked about: definitions and listed probes.

use super::Subject;
use crate::abi::{Definition, Kind};
use crate::registry::ProbeInfo;

macro_rules! subjects {
    ($($ty:ty),*) => { $(
        impl Subject for $ty {
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

subjects!(Definition, ProbeInfo);
