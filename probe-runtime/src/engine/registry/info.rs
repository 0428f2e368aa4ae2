//! The description of a probe that `probes()` returns.

use std::fmt;

use super::ProbeId;
use crate::engine::sites::Refusal;
use probe_core::abi::{Definition, Kind, Type};
use probe_lang::Selectable;

/// The state of a probe's sites.
///
/// ```
/// use probe_runtime::registry::ProbeState;
/// use probe_runtime::{Count, probe, select};
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
    /// No attachment listens, and the sites are NOPs.
    Latent,
    /// An attachment listens, and the sites jump.
    Active,
    /// An attachment listens, but a hold (or a pause) keeps the sites latent.
    Held,
    /// Some sites hold bytes that this crate did not leave there. Another writer has changed them,
    /// so hits may be lost even if an attachment listens. See [`ProbeInfo::foreign`].
    Foreign,
    /// An attachment listens, but the objects that hold the probe were unloaded. The attachment
    /// continues when one of them is loaded again.
    Unloaded,
}

impl ProbeState {
    /// Returns the word that tables use.
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

/// One field of a probe, as known without a hit.
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
    /// Returns the field's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the type of the field's values; [`Type::Format`] for `?expr` and `%expr`.
    ///
    /// Returns `None` if the type is not known. That is so if the program has no site of the probe,
    /// or if the sites of a generic function have different types. On targets other than x86-64
    /// Linux it is so for every probe in Rust.
    pub fn ty(&self) -> Option<Type> {
        self.ty
    }
}

/// One probe, as of the time of the call that returned it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProbeInfo {
    id: ProbeId,
    path: String,
    kind: Kind,
    file: String,
    line: u32,
    fields: Vec<FieldInfo>,
    group: Option<String>,
    module: Option<String>,
    doc: Option<String>,
    skipped: Option<String>,
    sites: usize,
    state: ProbeState,
    foreign: Vec<Refusal>,
    /// Whether it was hit before anything could be attached to it.
    was_reached: bool,
}

impl ProbeInfo {
    /// Describes a probe. `ty` returns the type of the field with the given index.
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
            module: definition.note("module").map(str::to_owned),
            doc: definition.note("doc").map(str::to_owned),
            skipped: definition.skipped().map(str::to_owned),
            sites,
            state,
            foreign: Vec::new(),
            was_reached: false,
        }
    }

    /// Adds fields that no site passes, but an attachment reads.
    #[cfg(probe_values)]
    pub(crate) fn with_fields(mut self, fields: &[(String, Option<Type>)]) -> Self {
        let new = fields.iter().filter(|(name, _)| self.fields.iter().all(|it| it.name != *name));
        let new: Vec<_> = new.map(|(name, ty)| FieldInfo { name: name.clone(), ty: *ty }).collect();
        self.fields.extend(new);
        self
    }

    /// Notes whether a hit has found the probe.
    pub(crate) fn found_by_hit(mut self, was_reached: bool) -> Self {
        self.was_reached = was_reached;
        self
    }

    /// Returns whether it was hit before anything could be attached to it.
    pub(crate) fn was_reached(&self) -> bool {
        self.was_reached
    }

    /// Adds the sites that hold unexpected bytes, if there are any.
    pub(crate) fn with_foreign(mut self, foreign: Vec<Refusal>) -> Self {
        if !foreign.is_empty() {
            self.state = ProbeState::Foreign;
            self.foreign = foreign;
        }
        self
    }

    /// Returns the description of the same probe once it is unloaded.
    pub(crate) fn unloaded(&self) -> Self {
        Self { sites: 0, state: ProbeState::Unloaded, foreign: Vec::new(), ..self.clone() }
    }

    /// Returns the probe's number.
    pub fn id(&self) -> ProbeId {
        self.id
    }

    /// Returns the module path and the name, joined by `::`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns whether the probe is an entry, an exit or a point.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the source file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the source line, counted from 1.
    pub fn line(&self) -> u32 {
        self.line
    }

    /// Returns the fields, in the order of a hit's values.
    ///
    /// ```
    /// # fn run(bytes: &[u8]) {
    /// probe_runtime::point!("received", len = bytes.len(), first = ?bytes.first());
    /// # }
    /// # run(b"x");
    /// let probes = probe_runtime::select("**::received")?.probes();
    /// assert_eq!(probes[0].fields().iter().map(|field| field.name()).collect::<Vec<_>>(), ["len", "first"]);
    /// if let Some(ty) = probes[0].fields()[0].ty() {
    ///     assert_eq!(ty, probe_runtime::field::Type::U64);
    /// }
    /// # Ok::<(), probe_runtime::Error>(())
    /// ```
    pub fn fields(&self) -> &[FieldInfo] {
        &self.fields
    }

    /// Returns the group, from `#[probe(group = "…")]` on the function or on a block around it.
    pub fn group(&self) -> Option<&str> {
        self.group.as_deref()
    }

    /// Returns the module of a library's function, such as `lock`. Only selectors that begin with
    /// that name select it: see [`modules`](crate::modules).
    #[cfg(feature = "modules")]
    pub fn module(&self) -> Option<&str> {
        self.module.as_deref()
    }

    /// Returns the meaning of a hit, from `#[probe(doc = "…")]`.
    pub fn doc(&self) -> Option<&str> {
        self.doc.as_deref()
    }

    /// Returns why a function in a block with `#[probe]` has no probe; `None` for a real probe.
    /// No selector names such a function, and nothing can be attached to it. It is listed once, as
    /// an entry without sites.
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

    /// Returns the number of machine-code copies in the program. There are several if the function
    /// was inlined or is generic, and none if the compiler removed it. A function with several ways
    /// out (unwinding is one) may have more exits than entries.
    pub fn sites(&self) -> usize {
        self.sites
    }

    /// Returns the sites that hold bytes that this crate did not leave there, each with the
    /// expected and the found bytes. A breakpoint or another tracer may have written them, or left
    /// them behind. Only x86-64 Linux has sites to read; text that can't be read is not reported.
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

    /// Returns the state of the probe's sites.
    pub fn state(&self) -> ProbeState {
        self.state
    }
}

impl Selectable for ProbeInfo {
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
        self.group()
    }

    fn module(&self) -> Option<&str> {
        self.module.as_deref()
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
