//! Which places of C and C++ functions become probe sites.

/// The strategy by which functions of C and C++ get their sites.
///
/// ```
/// assert_eq!(probe_build::Sites::default(), probe_build::Sites::EntryReturn);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sites {
    /// One site at each function's entry and one before each of its returns and tail calls; the
    /// compiler's code stays what it was. Functions that the compiler inlined have no sites.
    #[default]
    EntryReturn,
    /// The compiler's own hooks (`-finstrument-functions`), each call of which becomes a site.
    /// Inlined functions have sites, too; the code is the slower for it, as the compiler believes
    /// in the calls.
    InstrumentFunctions,
    /// No sites at all.
    None,
}
