//! What selectors can be asked about: definitions, listed probes, and types of one's own.

use crate::abi::{Definition, Kind};
use crate::registry::ProbeInfo;

/// Something that a [`Selector`](crate::Selector) can be matched against.
///
/// Definitions and listed probes are subjects. Implement it for a type of your own, to select from
/// other things by the same grammar: lines of a recorded trace, say. A selector asks for a property
/// only when it needs it; most need the path alone.
///
/// ```
/// use probe_runtime::{Kind, Selector, Subject};
///
/// /// An event of a recorded trace.
/// struct Recorded {
///     path: String,
///     kind: Kind,
/// }
///
/// impl Subject for Recorded {
///     fn path(&self) -> &str { &self.path }
///     fn kind(&self) -> Kind { self.kind }
///     fn file(&self) -> &str { "src/net.rs" }
///     fn line(&self) -> u32 { 7 }
/// }
///
/// let event = Recorded { path: "net::poll".to_owned(), kind: Kind::Exit };
/// assert!(Selector::parse("net::* kind=exit")?.matches(&event));
/// assert!(!Selector::parse("group=db")?.matches(&event)); // it is in no group
/// # Ok::<(), probe_runtime::SelectorError>(())
/// ```
pub trait Subject {
    /// The probe's path.
    fn path(&self) -> &str;
    /// What the probe marks.
    fn kind(&self) -> Kind;
    /// Its source file.
    fn file(&self) -> &str;
    /// Its source line.
    fn line(&self) -> u32;
    /// The probe's group. By default it has none.
    fn group(&self) -> Option<&str> {
        None
    }
}

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
