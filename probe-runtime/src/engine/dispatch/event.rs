//! The data of a hit that a consumer gets: the probe's number, and the values of its fields.

// Safety: relies on a hit having as many values as its definition has fields, as the macros and
// docs/abi.md promise, and on the values living until the call returns.
#![expect(unsafe_code, reason = "see above")]

use std::marker::PhantomData;
#[cfg(probe_values)]
use std::ptr;
use std::{fmt, slice};

use super::ThreadSlot;
#[cfg(probe_values)]
use super::site_values::GivenValues;
use crate::engine::entry::backend;
#[cfg(probe_values)]
use crate::engine::entry::backend::registers::{after_site, frame_pointer};
use crate::engine::os;
#[cfg(probe_values)]
use probe_core::abi::Type;
use probe_core::abi::{Convention, Definition, FieldNames, Kind, Value, ValueRef};
use probe_report::source::Period;

/// The field that tells futures of one probe apart.
pub(crate) const FUTURE: &str = "future";

/// One hit: its probe and the values of its fields. Borrowed for the call.
///
/// ```
/// use std::sync::Mutex;
/// use probe_runtime::{Consumer, Event, probe, select};
///
/// struct Log(Mutex<Vec<String>>);
///
/// impl Consumer for Log {
///     fn hit(&self, event: &Event<'_>) {
///         let mut line = format!("{} {}", event.kind(), event.path());
///         for (name, value) in event.fields() {
///             line += &format!(" {name}={value}");
///         }
///         self.0.lock().unwrap().push(line);
///     }
/// }
///
/// #[probe(args(n))]
/// fn request(n: u32) {}
///
/// let log = select("**::request kind=entry")?.attach(Log(Mutex::default()))?;
/// request(7);
/// assert!(log.0.lock().unwrap()[0].ends_with("::request n=7"));
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Event<'a> {
    definition: &'a Definition,
    probe: ProbeId,
    at: HitPlace,
    borrow: PhantomData<&'a [Value<'a>]>,
}

/// Registers at a site.
#[cfg(probe_values)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct SiteRegisters {
    /// The address after the instruction that has left the function.
    pub(crate) after: usize,
    pub(crate) stack_pointer: usize,
    pub(crate) frame_pointer: usize,
    /// Whether the return address is at the stack pointer: the function [has its
    /// frame](Event::has_frame), and no wrapper has one besides.
    pub(crate) is_at_return: bool,
}

/// Returns whether the address after a site is a wrapper's.
#[cfg(probe_values)]
#[inline(always)]
fn is_in_wrapper(after: usize) -> bool {
    #[cfg(probe_modules)]
    return backend::wrapper::after_sites().contains(&after);
    #[cfg(not(probe_modules))]
    {
        let _ = after;
        false
    }
}

#[cfg(probe_values)]
impl SiteRegisters {
    /// Returns the word at the stack pointer, the return address if it is there.
    #[inline(always)]
    pub(crate) fn return_address(&self) -> Option<u64> {
        // SAFETY: memory at a site's stack pointer is the stack's.
        self.is_at_return.then(|| unsafe { *ptr::with_exposed_provenance(self.stack_pointer) })
    }
}

/// The circumstances of a hit: stack pointer, values, thread, and the generation of its attachment.
#[derive(Clone, Copy)]
pub(super) struct HitPlace {
    pub(super) frame: *const Value<'static>,
    pub(super) slot: &'static ThreadSlot,
    pub(super) generation: u32,
    /// The values that the attachment reads itself; null if it reads none.
    #[cfg(probe_values)]
    pub(super) given: *const GivenValues<'static>,
}

impl HitPlace {
    #[inline(always)]
    pub(super) fn new(frame: *const Value<'static>, slot: &'static ThreadSlot, generation: u32) -> Self {
        Self {
            frame,
            slot,
            generation,
            #[cfg(probe_values)]
            given: ptr::null(),
        }
    }
}

impl<'a> Event<'a> {
    #[inline(always)]
    pub(super) fn new(definition: &'a Definition, probe: ProbeId, at: HitPlace) -> Self {
        Self { definition, probe, at, borrow: PhantomData }
    }

    pub(super) fn definition(&self) -> &'a Definition {
        self.definition
    }

    #[inline(always)]
    pub(crate) fn slot(&self) -> &'static ThreadSlot {
        self.at.slot
    }

    /// The generation of the attachment's sites to which the hit belongs. It is odd while all sites
    /// are in their intended state. It is even while sites are being switched (attached, paused,
    /// resumed, held, released, loaded late). It is never 0, and a switch never brings back an
    /// earlier number.
    ///
    /// Between two hits of one odd generation, this thread has missed no hit of the attachment's
    /// probes. A consumer that pairs entries with exits should therefore pair only hits of one odd
    /// generation. A [`Switch`](crate::control::Switch) does not change the generation; its caller
    /// must account for that. After a switch with
    /// [`Visibility::Eventual`](crate::patch::Visibility::Eventual), a thread may execute the old
    /// instructions for a moment.
    #[inline(always)]
    pub fn generation(&self) -> u32 {
        self.at.generation
    }

    /// Returns the stack pointer at the site; `None` on targets that don't patch sites. Functions
    /// that are called from there have a lower one. In C code, it [tells calls
    /// apart](Self::has_frame) at entries and exits.
    #[inline(always)]
    pub fn stack_pointer(&self) -> Option<usize> {
        // Cold blocks in Rust code step over the red zone, and further if there are fields.
        let stepped = match self.definition.convention() {
            Convention::ColdBlock | Convention::KeptColdBlock if self.definition.field_count() == 0 => 128,
            Convention::ColdBlock | Convention::KeptColdBlock => 192,
            Convention::Hidden | Convention::Call | Convention::Wrapped => 0,
        };
        let is_known = backend::HAS_STACK_POINTER && !self.at.frame.is_null();
        is_known.then(|| self.at.frame.addr() + stepped)
    }

    /// Returns the address of the probe's definition.
    #[cfg(probe_values)]
    #[inline(always)]
    pub(crate) fn definition_addr(&self) -> usize {
        ptr::from_ref(self.definition).addr()
    }

    /// Returns the registers at the site that lead to the caller of its function.
    #[cfg(probe_values)]
    #[inline(always)]
    pub(crate) fn site_registers(&self) -> Option<SiteRegisters> {
        let stack_pointer = self.stack_pointer()?;
        // SAFETY: the frame of the way in, of a hit that has not returned.
        unsafe {
            let after = after_site(self.at.frame);
            let is_at_return = self.has_frame() && !is_in_wrapper(after);
            Some(SiteRegisters {
                after,
                stack_pointer,
                frame_pointer: frame_pointer(self.at.frame),
                is_at_return,
            })
        }
    }

    /// Returns whether the function has the stack pointer of its call at the site, as at entries
    /// and exits of C code. All sites of one call then have the same stack pointer, and no other
    /// call under way has it. In C, a call may end without an exit (`longjmp`, an exception). In
    /// Rust, every way out passes an exit.
    #[inline(always)]
    pub fn has_frame(&self) -> bool {
        matches!(self.definition.convention(), Convention::Hidden | Convention::Wrapped)
    }

    /// Returns whether a call of the function may end without an exit, by `longjmp` or an
    /// exception: in C code.
    #[inline(always)]
    pub fn may_skip_exit(&self) -> bool {
        matches!(self.definition.convention(), Convention::Hidden | Convention::Call | Convention::Wrapped)
    }

    /// Returns the thread's number in this process: threads are counted from 1 in the order of
    /// their first hits of any probe, and no number is reused. The same as
    /// [`Local::thread`](crate::consumer::Local::thread).
    #[inline(always)]
    pub fn thread(&self) -> u64 {
        self.at.slot.thread()
    }

    /// Returns the probe's dense number in this process.
    #[inline(always)]
    pub fn probe(&self) -> ProbeId {
        self.probe
    }

    /// Returns the probe's path.
    pub fn path(&self) -> &'a str {
        self.definition.path()
    }

    /// Returns the probe's kind, such as entry, exit or point.
    pub fn kind(&self) -> Kind {
        self.definition.kind()
    }

    /// Returns the probe's source file.
    pub fn file(&self) -> &'a str {
        self.definition.file()
    }

    /// Returns the probe's source line.
    pub fn line(&self) -> u32 {
        self.definition.line()
    }

    /// Returns the fields' names and values, in the order of the source.
    pub fn fields(&self) -> Fields<'a> {
        #[cfg(probe_values)]
        if let Some(given) = self.given() {
            return Fields { names: Names::Given(given.names().iter()), values: given.values().iter() };
        }
        Fields { names: Names::Defined(self.definition.fields()), values: self.values().iter() }
    }

    /// Returns the fields' values as the site has passed them.
    #[inline(always)]
    pub(crate) fn values(&self) -> &'a [Value<'a>] {
        let count = self.definition.field_count();
        if count == 0 {
            #[cfg(probe_values)]
            return self.given().map_or(&[], GivenValues::values);
            #[cfg(not(probe_values))]
            return &[];
        }
        // SAFETY: the hit has not returned.
        let values = unsafe { backend::values(self.at.frame, count) };
        // SAFETY: a site with fields passes as many values, alive until the hit returns.
        unsafe { slice::from_raw_parts(values, count) }
    }

    /// Returns the values that the attachment reads itself.
    #[cfg(probe_values)]
    #[inline(always)]
    fn given(&self) -> Option<&'a GivenValues<'a>> {
        // SAFETY: null, or the values of this hit, which has not returned.
        unsafe { self.at.given.cast::<GivenValues<'a>>().as_ref() }
    }

    /// Lets the function's call continue at a thunk, once this hit is done, if it is a call of the
    /// function with this definition.
    ///
    /// # Safety
    /// The definition must be that of the entry of a C function, and the thunk must be for it
    /// ([`thunk_to`](backend::diversion::thunk_to)).
    #[cfg(probe_values)]
    #[inline(always)]
    pub(crate) unsafe fn divert(&self, definition: usize, thunk: usize) {
        if ptr::from_ref(self.definition).addr() == definition {
            // SAFETY: the caller's promise; the hit has not returned.
            unsafe { backend::diversion::divert(self.at.frame, thunk) };
        }
    }

    /// Returns the value of one field, by its name.
    pub fn field(&self, name: &str) -> Option<ValueRef<'a>> {
        self.fields().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Returns an address in the future, for a future that has probes (`#[probe] async fn`), and
    /// `None` for other probes. The address is the same in all hits from entry to exit or drop, on
    /// all threads. Until then no other future of this probe has it.
    ///
    /// A future that is not an `async` block (`-> impl Future` of another type) may be `Unpin`. If
    /// it is moved between two polls, its later hits have another address, and another future may
    /// get its former one.
    pub fn future(&self) -> Option<usize> {
        if self.kind() == Kind::Point || self.definition.fields().next() != Some(FUTURE) {
            return None;
        }
        self.fields().next()?.1.as_u64()?.try_into().ok()
    }

    /// Returns whether the thread is unwinding from a panic, so that an exit is not a return. It is
    /// also true in a function that a destructor calls during the unwinding, although that function
    /// returns.
    pub fn is_unwinding(&self) -> bool {
        std::thread::panicking()
    }
}

/// Prints the probe, its fields, the thread's number and present name, and the calendar time in
/// UTC. The time is read when the event is printed, not at the hit. Printing takes some
/// microseconds, and may allocate; fields are printed by their own code.
///
/// ```
/// use std::sync::Mutex;
/// use probe_runtime::{probe, select};
///
/// static SHOWN: Mutex<String> = Mutex::new(String::new());
///
/// #[probe(args(*))]
/// fn shown(answer: u32) -> u32 {
///     answer
/// }
/// shown(1);
///
/// let attached = select("**::shown kind=entry")?.attach_fn(|event| *SHOWN.lock().unwrap() = format!("{event:?}"))?;
/// shown(42);
/// drop(attached);
/// let shown = SHOWN.lock().unwrap();
/// // Event { path: "rust_out::shown", kind: Entry, fields: {"answer": 42}, thread: 1, name: "main", time: 2026-11-22T10:03:51.000017Z }
/// assert!(shown.contains(r#"::shown", kind: Entry, fields: {"answer": 42}, thread: "#), "{shown}");
/// # Ok::<(), probe_runtime::Error>(())
/// ```
impl fmt::Debug for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        struct All<'a>(Fields<'a>);

        impl fmt::Debug for All<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_map().entries(self.0.clone()).finish()
            }
        }

        let name = os::thread::name();
        let len = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        f.debug_struct("Event")
            .field("path", &self.path())
            .field("kind", &self.kind())
            .field("fields", &All(self.fields()))
            .field("thread", &self.thread())
            .field("name", &String::from_utf8_lossy(&name[..len]))
            .field("time", &format_args!("{}", Period::default().start()))
            .finish()
    }
}

/// The fields of a hit, see [`Event::fields`]. They stay on the thread of the hit, since a value
/// that formats itself may be of a type that is neither [`Send`] nor [`Sync`]:
///
/// ```compile_fail,E0277
/// # fn hit(event: &probe_runtime::Event<'_>) {
/// let fields = event.fields();
/// std::thread::scope(|scope| {
///     scope.spawn(move || fields.count());
/// });
/// # }
/// ```
#[derive(Clone)]
pub struct Fields<'a> {
    names: Names<'a>,
    values: slice::Iter<'a, Value<'a>>,
}

/// The source of the fields' names.
#[derive(Clone)]
enum Names<'a> {
    Defined(FieldNames<'a>),
    #[cfg(probe_values)]
    Given(slice::Iter<'a, (String, Option<Type>)>),
}

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a str, ValueRef<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let name = match &mut self.names {
            Names::Defined(names) => names.next()?,
            #[cfg(probe_values)]
            Names::Given(names) => &names.next()?.0,
        };
        Some((name, self.values.next()?.get()))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.values.size_hint()
    }
}

impl ExactSizeIterator for Fields<'_> {}

impl<'a> Fields<'a> {
    /// Returns the values alone. This reads no names, so it takes less time.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    /// use probe_runtime::{probe, select};
    ///
    /// static SUM: AtomicU64 = AtomicU64::new(0);
    ///
    /// #[probe(args(*))]
    /// fn add(first: u64, second: u64) {}
    /// add(0, 0);
    ///
    /// let _adding = select("**::add kind=entry")?.attach_fn(|event| {
    ///     let values = event.fields().values();
    ///     SUM.fetch_add(values.filter_map(|value| value.as_u64()).sum(), Relaxed);
    /// })?;
    /// add(3, 4);
    /// assert_eq!(SUM.load(Relaxed), 7);
    /// # Ok::<(), probe_runtime::Error>(())
    /// ```
    pub fn values(self) -> impl ExactSizeIterator<Item = ValueRef<'a>> {
        self.values.map(Value::get)
    }
}

/// A probe's number in this process: dense, and never given to another probe.
///
/// ```
/// use probe_runtime::{probe, select};
///
/// #[probe]
/// fn route() {}
///
/// route();
/// // Two probes: an entry and an exit. Their numbers stay the same while the program runs.
/// let probes = select("**::route")?.probes();
/// assert_ne!(probes[0].id(), probes[1].id());
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct ProbeId(u32);

impl ProbeId {
    /// The number of no probe.
    pub(crate) const UNKNOWN: Self = Self(u32::MAX);

    pub(crate) fn new(number: usize) -> Self {
        Self(u32::try_from(number).expect("fewer than 2^32 probes"))
    }

    /// Returns the number, from 0.
    #[inline(always)]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for ProbeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}
