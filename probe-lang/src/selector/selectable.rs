//! Types that selectors can match: definitions, listed probes, and types of the program.

use probe_core::abi::{Definition, Kind};

/// A value that a [`Selector`](crate::Selector) can be matched against.
///
/// Definitions and listed probes are subjects. Implement the trait for a type of your own to select
/// other things by the same grammar, for example the lines of a recorded trace. A selector calls a
/// method only when it needs that property; most need only the path.
///
/// ```
/// use probe_runtime::selector::Selectable;
/// use probe_runtime::{Kind, Selector};
///
/// /// An event of a recorded trace.
/// struct Recorded {
///     path: String,
///     kind: Kind,
/// }
///
/// impl Selectable for Recorded {
///     fn path(&self) -> &str { &self.path }
///     fn kind(&self) -> Kind { self.kind }
///     fn file(&self) -> &str { "src/net.rs" }
///     fn line(&self) -> u32 { 7 }
/// }
///
/// let event = Recorded { path: "net::poll".to_owned(), kind: Kind::Exit };
/// assert!(Selector::parse("net::* kind=exit")?.matches(&event));
/// assert!(!Selector::parse("group=db")?.matches(&event)); // it is in no group
/// # Ok::<(), probe_runtime::selector::SelectorError>(())
/// ```
pub trait Selectable {
    /// Returns the probe's path.
    fn path(&self) -> &str;
    /// Returns the kind of place that the probe marks.
    fn kind(&self) -> Kind;
    /// Returns its source file.
    fn file(&self) -> &str;
    /// Returns its source line.
    fn line(&self) -> u32;
    /// Returns the probe's group. By default there is none.
    fn group(&self) -> Option<&str> {
        None
    }
}

impl Selectable for Definition {
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

    fn group(&self) -> Option<&str> {
        self.note("group")
    }
}
