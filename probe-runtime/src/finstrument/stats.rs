//! Numbers of discoveries, by their states, and of redirected calls.

/// Numbers of call sites that were discovered since the process began, and of their states. From
/// [`stats`](super::stats()).
///
/// ```
/// let stats = probe_runtime::finstrument::stats();
/// println!("{} of {} call sites are patched", stats.patched, stats.discovered);
/// if stats.beyond_capacity != 0 {
///     println!("{} found no counter: attach with a greater capacity", stats.beyond_capacity);
/// }
/// # assert_eq!(stats.lost, 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Call sites that were discovered.
    pub discovered: usize,
    /// Call sites that became sites: a NOP while latent, a call of their own stub while active.
    /// Sites that became real calls again, since two functions share them, count here and in
    /// `unpatched`.
    pub patched: usize,
    /// Those of `patched` that lie across two aligned words.
    pub split_calls: usize,
    /// Those of `patched` that are functions ending in jumps to the exit hook. All jumps of one
    /// function count once.
    pub tail_jumps: usize,
    /// Call sites that are real calls for good at present, see [`unpatched`](super::unpatched).
    pub unpatched: usize,
    /// Call sites that are real calls at present, and that a later hit or operation will patch.
    pub waiting: usize,
    /// Call sites that the first hit did not patch, since it would have had to wait.
    pub postponed: usize,
    /// Hits of call sites for which there was no memory.
    pub lost: usize,
    /// Discoveries without a call of the callback, since the callback or a consumer was running on
    /// that thread.
    pub untold: usize,
    /// Discoveries whose objects were unloaded before an operation could name them. No attachment's
    /// counts include their hits.
    pub unnamed: usize,
    /// Discoveries that an attachment to [all](super::attach) had no room for.
    pub beyond_capacity: usize,
}

/// Words that lead calls of hooks, since the process began: how many were changed, and how many the
/// system did not let change. From [`redirect`](super::redirect).
///
/// ```
/// let redirected = probe_runtime::finstrument::redirect();
/// // No object of this program is compiled with `-finstrument-functions`.
/// assert_eq!((redirected.led, redirected.refused), (0, 0));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Redirected {
    /// Words that lead to this crate's hooks from now on: one or two for each object that calls
    /// them.
    pub led: usize,
    /// Words whose page could not be made writable. The calls of their objects reach the C
    /// library's hooks, which do nothing.
    pub refused: usize,
}
