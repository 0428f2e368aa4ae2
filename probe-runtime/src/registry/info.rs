//! What `probes()` tells of a probe.

use std::fmt;

use super::ProbeId;
use crate::abi::{Definition, Kind, Type};
use crate::patch::Refusal;

/// Whether anybody listens.
///
/// ```
/// use probe_runtime::{Count, ProbeState, probe, select};
///
/// #[probe]
/// fn serve() {}
///
/// serve();
/// let probes = select("**::serve kind=entry")?;
/// assert_eq!(probes.probes()[0].state(), ProbeState::Latent);
/// let _hits = probes.attach(Count::new())?;
/// assert_eq!(probes.probes()[0].state(), ProbeState::Active);
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbeState {
    /// Nobody is attached: the sites are NOPs.
    Latent,
    /// Somebody is attached: the sites jump.
    Active,
    /// Somebody is attached, but a hold (or a pause) keeps the sites latent.
    Held,
    /// Some of its sites hold other bytes than they were left with: somebody else has written there, and hits may be lost, whoever is
    /// attached. See [`ProbeInfo::foreign`].
    Foreign,
    /// Somebody is attached, and the objects that hold the probe were unloaded. It goes on when one is loaded again.
    Unloaded,
}

impl ProbeState {
    /// The word that tables use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Latent => "latent",
            Self::Active => "active",
            Self::Held => "held",
            Self::Foreign => "foreign",
            Self::Unloaded => "unloaded",
        }
    }
}

impl fmt::Display for ProbeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One field of a probe, as it is known without a hit.
///
/// ```
/// use probe_runtime::{probe, select};
///
/// #[probe]
/// fn read(input: &[u8]) {
///     probe!("read_input", bytes = input.len());
/// }
///
/// let probes = select("**::read_input")?.probes();
/// assert_eq!(probes[0].fields()[0].name(), "bytes");
/// # read(b"");
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldInfo {
    name: String,
    ty: Option<Type>,
}

impl FieldInfo {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type of its values; [`Type::Format`] of `?expr` and `%expr`.
    ///
    /// `None` where that is not known: the program has no site of the probe, or, in a generic function, sites with
    /// different types; on other targets than x86-64 Linux, of probes in Rust.
    pub fn ty(&self) -> Option<Type> {
        self.ty
    }
}

/// One probe, as it was when asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProbeInfo {
    id: ProbeId,
    path: String,
    kind: Kind,
    file: String,
    line: u32,
    fields: Vec<FieldInfo>,
    group: Option<String>,
    doc: Option<String>,
    skipped: Option<String>,
    sites: usize,
    state: ProbeState,
    foreign: Vec<Refusal>,
}

impl ProbeInfo {
    /// `ty` tells the type of the field with that index.
    pub(crate) fn new(
        id: ProbeId,
        definition: &Definition,
        ty: impl Fn(usize) -> Option<Type>,
        sites: usize,
        state: ProbeState,
    ) -> Self {
        let field = |(index, name): (usize, &str)| FieldInfo { name: name.to_owned(), ty: ty(index) };
        Self {
            id,
            path: definition.path().to_owned(),
            kind: definition.kind(),
            file: definition.file().to_owned(),
            line: definition.line(),
            fields: definition.fields().enumerate().map(field).collect(),
            group: definition.note("group").map(str::to_owned),
            doc: definition.note("doc").map(str::to_owned),
            skipped: definition.skipped().map(str::to_owned),
            sites,
            state,
            foreign: Vec::new(),
        }
    }

    /// The same probe, with what its sites hold that they were not left with.
    pub(crate) fn with_foreign(mut self, foreign: Vec<Refusal>) -> Self {
        if !foreign.is_empty() {
            self.state = ProbeState::Foreign;
            self.foreign = foreign;
        }
        self
    }

    /// The same probe, once it is unloaded.
    pub(crate) fn unloaded(&self) -> Self {
        Self { sites: 0, state: ProbeState::Unloaded, foreign: Vec::new(), ..self.clone() }
    }

    /// The probe's number.
    pub fn id(&self) -> ProbeId {
        self.id
    }

    /// Module path and name, joined by `::`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Entry, exit or point.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The source file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The source line, from 1.
    pub fn line(&self) -> u32 {
        self.line
    }

    /// The fields, in the order of a hit's values.
    ///
    /// ```
    /// # fn run(bytes: &[u8]) {
    /// probe_runtime::point!("received", len = bytes.len(), first = ?bytes.first());
    /// # }
    /// # run(b"x");
    /// let probes = probe_runtime::select("**::received")?.probes();
    /// assert_eq!(probes[0].fields().iter().map(|field| field.name()).collect::<Vec<_>>(), ["len", "first"]);
    /// if let Some(ty) = probes[0].fields()[0].ty() {
    ///     assert_eq!(ty, probe_runtime::Type::U64);
    /// }
    /// # Ok::<(), probe_runtime::Error>(())
    /// ```
    pub fn fields(&self) -> &[FieldInfo] {
        &self.fields
    }

    /// The group, from `#[probe(group = "…")]` on the function or on a block around it.
    pub fn group(&self) -> Option<&str> {
        self.group.as_deref()
    }

    /// What a hit means, from `#[probe(doc = "…")]`.
    pub fn doc(&self) -> Option<&str> {
        self.doc.as_deref()
    }

    /// Why a function in a block with `#[probe]` has no probe; `None` of every other one. No selector names it, nothing can be
    /// attached to it, and it is listed once, as an entry without sites.
    ///
    /// | reason | the function |
    /// |---|---|
    /// | `asked` | has `#[probe(skip)]`, or stands in a block that has |
    /// | `filtered` | is named by an `except`, or not by an `only` |
    /// | `inline` | has `#[inline]` or `#[inline(always)]` |
    /// | `small` | is one short expression |
    /// | `const` | is a `const fn` |
    /// | `naked` | is naked |
    /// | `bodiless` | is a trait's method without a body |
    /// | `gen` | is a generator |
    pub fn skipped(&self) -> Option<&str> {
        self.skipped.as_deref()
    }

    /// How many machine-code copies the program holds: more than one where the function was inlined or is
    /// generic, none where it was optimised away. A function with several ways out, unwinding among them, may
    /// have more exits than entries.
    pub fn sites(&self) -> usize {
        self.sites
    }

    /// Sites that hold other bytes than they were left with, each with what was expected and found: a breakpoint, a tracer's work, or
    /// what that has left behind. Nothing but x86-64 Linux has sites that are looked at, and text that can't be read is not.
    ///
    /// ```
    /// # fn work() { probe_runtime::point!("looked_at"); }
    /// # work();
    /// let probes = probe_runtime::select("**::looked_at")?.probes();
    /// assert!(probes[0].foreign().is_empty());
    /// # Ok::<(), probe_runtime::Error>(())
    /// ```
    pub fn foreign(&self) -> &[Refusal] {
        &self.foreign
    }

    /// Whether anybody listens.
    pub fn state(&self) -> ProbeState {
        self.state
    }
}

impl fmt::Display for ProbeInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}:{}", self.path, self.kind, self.file, self.line)?;
        if !self.fields.is_empty() {
            let names: Vec<_> = self.fields.iter().map(FieldInfo::name).collect();
            write!(f, " [{}]", names.join(", "))?;
        }
        if let Some(reason) = &self.skipped {
            return write!(f, " skipped ({reason})");
        }
        let s = if self.sites == 1 { "" } else { "s" };
        write!(f, " {} site{s}, {}", self.sites, self.state)
    }
}
