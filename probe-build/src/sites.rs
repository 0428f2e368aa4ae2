//! The places of sites in C and C++ functions.

/// The strategy by which functions of C and C++ get their sites.
///
/// ```
/// assert_eq!(probe_build::Sites::default(), probe_build::Sites::EntryReturn);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sites {
    /// One site at each function's entry and one before each of its returns and tail calls. The
    /// compiler's code stays unchanged. Functions that the compiler inlined have no sites.
    #[default]
    EntryReturn,
    /// The compiler's own hooks (`-finstrument-functions`); each call of a hook becomes a site.
    /// Inlined functions have sites, too. The code is slower, because the compiler assumes real
    /// calls.
    InstrumentFunctions,
    /// No sites at all.
    None,
}
