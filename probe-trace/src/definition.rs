//! The probes of a trace: their names, places and fields.

/// The kind of place in the program that a probe marks. The numbers are those in files.
///
/// ```
/// use probe_trace::Kind;
/// assert_eq!(Kind::from_number(1), Some(Kind::Entry));
/// assert_eq!(Kind::Entry.name(), "entry");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum Kind {
    /// A place inside a function.
    Point = 0,
    /// The entry of a function; for a future, the begin of its first poll.
    Entry = 1,
    /// The exit of a function; for a future, the end of its last poll.
    Exit = 2,
    /// The drop of a future between its entry and its exit.
    Drop = 3,
    /// The end of a future's poll without a result.
    Suspend = 4,
    /// The beginning of any poll but the first.
    Resume = 5,
    /// The place before an entry where a replacement may take over.
    Replace = 6,
}

impl Kind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 7] =
        [Self::Point, Self::Entry, Self::Exit, Self::Drop, Self::Suspend, Self::Resume, Self::Replace];

    /// Returns the kind with this number; `None` if this reader does not know it.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Returns its name, as selectors have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Point => "point",
            Self::Entry => "entry",
            Self::Exit => "exit",
            Self::Drop => "drop",
            Self::Suspend => "suspend",
            Self::Resume => "resume",
            Self::Replace => "replace",
        }
    }
}

/// One probe of a trace.
///
/// ```
/// fn place(probe: &probe_trace::Definition) -> String {
///     format!("{} at {}:{}", probe.path, probe.file, probe.line)
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Definition {
    /// The probe's number in its process.
    pub probe: u32,
    /// The kind; `None` if this reader does not know it.
    pub kind: Option<Kind>,
    /// Whether calls of the function may end without an exit (C code).
    pub may_skip_exit: bool,
    /// Whether all hits of a call have one stack pointer, which no other open call has.
    pub has_frame: bool,
    /// Whether the first field tells futures of this probe apart.
    pub is_future: bool,
    /// The path, such as `app::net::handle`. The entry and the exits of a function have one path.
    pub path: String,
    /// The source file.
    pub file: String,
    /// The line in the source file.
    pub line: u32,
    /// Names of the fields.
    pub fields: Vec<String>,
}
