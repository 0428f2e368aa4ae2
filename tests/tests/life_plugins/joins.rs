//! Probes that join persistent attachments: once, in time, and again after an unload.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use probe_runtime::consumer::Start;
use probe_runtime::latency::FunctionLatency;
use probe_runtime::registry::discover_probes;
use probe_runtime::spec::Spec;
use probe_runtime::{
    Aggregate, Consumer, Count, Error, Event, Kind, Latency, ProbeSet, Tracing, Trigger, select,
    select_persistent,
};
use probe_tests::library::Library;

use super::{own, plugin};

/// The hits of `plugin_sum(n)`: entry, exit and point of `each`, and entry and exit of itself.
fn hits_of(n: u64) -> u64 {
    3 * n + 2
}

/// Gets ready when the test says so, and counts the requests to do that.
#[derive(Default)]
struct Slowly {
    is_inside: AtomicBool,
    may_go: AtomicBool,
    asked: AtomicU64,
    refuses: AtomicBool,
    hits: AtomicU64,
}

impl Slowly {
    fn at_once() -> Self {
        Self { may_go: true.into(), ..Self::default() }
    }

    fn is_inside(&self) {
        until(|| self.is_inside.load(Ordering::SeqCst));
    }
}

fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        thread::yield_now();
    }
}

impl Consumer for Slowly {
    fn join(&self, _: &ProbeSet) -> Result<(), Error> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.is_inside.store(true, Ordering::SeqCst);
        until(|| self.may_go.load(Ordering::SeqCst));
        if self.refuses.load(Ordering::SeqCst) { Err(Error::Consumer("no room".into())) } else { Ok(()) }
    }

    fn hit(&self, _event: &Event<'_>) {
        self.hits.fetch_add(1, Ordering::Relaxed);
    }
}

/// An operation waits until probes have joined in another thread.
pub(super) fn looked_for_is_joined() {
    let consumer = Arc::new(Slowly::default());
    let attached = select_persistent("plugin::**").unwrap().attach(Arc::clone(&consumer)).unwrap();
    let _library = Library::open(&plugin("plugin"));
    thread::scope(|scope| {
        scope.spawn(discover_probes);
        consumer.is_inside();
        scope.spawn(|| {
            discover_probes();
            assert_eq!((attached.probes().len(), consumer.may_go.load(Ordering::SeqCst)), (5, true));
        });
        consumer.may_go.store(true, Ordering::SeqCst);
    });
    assert_eq!(consumer.asked.load(Ordering::SeqCst), 1);
}

/// Loads and unloads something else while it gets ready, as another thread may.
#[derive(Default)]
struct Meanwhile {
    once: AtomicBool,
    hits: AtomicU64,
    /// Unloaded while it gets ready.
    unloads: Mutex<Option<Library>>,
}

impl Consumer for Meanwhile {
    fn join(&self, _: &ProbeSet) -> Result<(), Error> {
        if !self.once.swap(true, Ordering::SeqCst) {
            let other = Library::open(&plugin("caller"));
            discover_probes();
            other.close();
            discover_probes();
        }
        self.unloads.lock().unwrap().take().into_iter().for_each(Library::close);
        Ok(())
    }

    fn hit(&self, _event: &Event<'_>) {
        self.hits.fetch_add(1, Ordering::Relaxed);
    }
}

/// A probe joins once, whatever happens meanwhile.
pub(super) fn once() {
    let attached = select_persistent("plugin::**").unwrap().attach(Meanwhile::default()).unwrap();
    let library = Library::open(&plugin("plugin"));
    discover_probes();
    assert_eq!(library.function("plugin_sum")(2), 3);
    assert_eq!((attached.hits.load(Ordering::Relaxed), attached.probes().len()), (hits_of(2), 5));
    drop(attached);

    // It comes back after it was unloaded while its consumer got ready.
    let attached = select_persistent("plugin::**").unwrap();
    library.close();
    discover_probes();
    let attached = { attached }.attach(Meanwhile::default()).unwrap();
    attached.once.store(true, Ordering::SeqCst);
    let (before, counts) = (attached.probes().len(), select_persistent("plugin::each").unwrap());
    let counts = counts.attach(Count::new()).unwrap();
    *attached.unloads.lock().unwrap() = Some(Library::open(&plugin("plugin")));
    discover_probes();
    assert_eq!(attached.late_report().refused(), 0);
    let library = Library::open(&plugin("plugin"));
    discover_probes();
    assert_eq!(library.function("plugin_sum")(2), 3);
    assert_eq!((attached.hits.load(Ordering::Relaxed), before <= 5), (hits_of(2), true));
    assert_eq!((counts.total(), attached.probes().len(), attached.left_out_later()), (4, 5, None));
}

/// Looks for probes inside of its hits, where none joins.
struct InHit;

impl Consumer for InHit {
    fn hit(&self, _event: &Event<'_>) {
        discover_probes();
    }
}

/// Probes that were noted and unloaded before they could join, join when they come back.
pub(super) fn unloaded_before() {
    let _own = select("**::own kind=entry").unwrap().attach(InHit).unwrap();
    let latency = select_persistent("plugin::**").unwrap().attach(Latency::new()).unwrap();
    let library = Library::open(&plugin("plugin"));
    own(1);
    library.close();
    discover_probes();
    assert_eq!((latency.probes().len(), latency.left_out_later()), (0, None));
    let library = Library::open(&plugin("plugin"));
    discover_probes();
    assert_eq!(library.function("plugin_sum")(3), 6);
    let calls = latency.latencies().function("plugin::each").map(FunctionLatency::calls);
    assert_eq!((calls, latency.probes().len(), latency.left_out_later()), (Some(3), 5, None));
}

/// Probes that were refused once may join later. The report then leaves them out no more.
pub(super) fn refused_once() {
    let attached = select_persistent("plugin::**").unwrap().attach(Slowly::at_once()).unwrap();
    attached.refuses.store(true, Ordering::SeqCst);
    let library = Library::open(&plugin("plugin"));
    discover_probes();
    let note = "5 probes that appeared later are left out: no room".to_owned();
    assert_eq!((library.function("plugin_sum")(1), attached.left_out_later()), (1, Some(note)));
    attached.refuses.store(false, Ordering::SeqCst);
    let other = Library::open(&plugin("caller"));
    discover_probes();
    other.close();
    discover_probes();
    assert_eq!(library.function("plugin_sum")(1), 1);
    assert_eq!((attached.hits.load(Ordering::Relaxed), attached.left_out_later()), (hits_of(1), None));
}

/// A consumer is not asked about probes that another runtime has.
pub(super) fn taken() {
    let guest = Library::open(&plugin("guest"));
    let _library = Library::open(&plugin("plugin"));
    guest.getter("guest_attach")();
    let consumer =
        select_persistent("plugin::**, caller::caller_sum").unwrap().attach(Slowly::at_once()).unwrap();
    // The guest has the entries.
    assert_eq!((consumer.report().refused(), consumer.probes().len()), (2, 3));
    for _ in 0..20 {
        let other = Library::open(&plugin("caller"));
        discover_probes();
        other.close();
        discover_probes();
    }
    assert_eq!((consumer.asked.load(Ordering::SeqCst), consumer.probes().len()), (1, 5));
    let note = "2 probes that appeared later are left out: another copy of this crate was faster";
    assert_eq!(consumer.left_out_later().as_deref(), Some(note));
}

/// A bridge knows the probes of an unloaded plugin when it comes back.
pub(super) fn bridged() {
    let bridge = select_persistent("plugin::**, caller::**").unwrap().attach(Tracing::new()).unwrap();
    let library = Library::open(&plugin("plugin"));
    discover_probes();
    assert_eq!(library.function("plugin_sum")(1), 1);
    // A span for each call, and the event. There is no subscriber.
    assert_eq!(bridge.totals().disabled, 3);
    library.close();
    let other = Library::open(&plugin("caller"));
    discover_probes();
    let library = Library::open(&plugin("plugin"));
    discover_probes();
    assert_eq!(library.function("plugin_sum")(1), 1);
    assert_eq!((bridge.totals().disabled, bridge.totals().unpaired, bridge.left_out_later()), (6, 0, None));
    other.close();
}

/// Forks inside of its hit.
#[derive(Default)]
struct Forks {
    child: AtomicU64,
}

static IS_CHILD: AtomicBool = AtomicBool::new(false);

impl Consumer for Forks {
    fn hit(&self, _event: &Event<'_>) {
        // SAFETY: the child calls the runtime and ends.
        let child = unsafe { libc::fork() };
        IS_CHILD.store(child == 0, Ordering::SeqCst);
        self.child.store(child.unsigned_abs().into(), Ordering::SeqCst);
    }
}

/// A child that was forked inside of a hit, while another thread lets probes join, continues.
pub(super) fn forked_in_a_hit() {
    let forks = select("**::own kind=entry").unwrap().attach(Forks::default()).unwrap();
    let consumer = Arc::new(Slowly::default());
    let slow = select_persistent("plugin::**").unwrap().attach(Arc::clone(&consumer)).unwrap();
    let _library = Library::open(&plugin("plugin"));
    thread::scope(|scope| {
        scope.spawn(discover_probes);
        consumer.is_inside();
        own(1);
        if IS_CHILD.load(Ordering::SeqCst) {
            // SAFETY: no pointers. A child that waits for the other thread would wait for ever.
            unsafe { libc::alarm(20) };
            drop(forks);
            let counts = select_persistent("plugin::** kind=point").unwrap().attach(Count::new()).unwrap();
            let note = "5 probes that appeared later are left out: the process forked while they joined";
            let is_right = counts.probes().len() == 1 && slow.left_out_later().as_deref() == Some(note);
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(if is_right { 7 } else { 8 }) };
        }
        consumer.may_go.store(true, Ordering::SeqCst);
        let mut status = -1;
        let child = libc::pid_t::try_from(forks.child.load(Ordering::SeqCst)).unwrap();
        // SAFETY: `status` is a place for the result.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0x700);
    });
    assert_eq!(slow.probes().len(), 5);
}

/// Is cancelled while it gets ready, and comes to a cancellation point.
struct Cancelled;

unsafe extern "C" {
    fn pthread_cancel(thread: libc::pthread_t) -> libc::c_int;
}

impl Consumer for Cancelled {
    fn join(&self, _: &ProbeSet) -> Result<(), Error> {
        // SAFETY: this thread lives; sleeping is a cancellation point.
        assert_eq!(unsafe { (pthread_cancel(libc::pthread_self()), libc::usleep(1)) }, (0, 0));
        Ok(())
    }

    fn hit(&self, _event: &Event<'_>) {}
}

/// Attaches after the plugin was loaded, so that attaching itself lets its probes join.
extern "C" fn attaches(set: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: from `cancelled`.
    let set = unsafe { Box::from_raw(set.cast::<ProbeSet>()) };
    let attached = set.attach(Cancelled).unwrap();
    assert_eq!(attached.probes().len(), 5);
    Box::into_raw(Box::new(attached)).cast()
}

/// A thread that is cancelled while probes join lets them join first.
pub(super) fn cancelled() {
    let set = Box::into_raw(Box::new(select_persistent("plugin::**").unwrap()));
    let _library = Library::open(&plugin("plugin"));
    discover_probes();
    let (mut thread, mut result) = (0, std::ptr::null_mut());
    // SAFETY: the thread gets the set, and is joined.
    unsafe {
        assert_eq!(libc::pthread_create(&raw mut thread, std::ptr::null(), attaches, set.cast()), 0);
        assert_eq!(libc::pthread_join(thread, &raw mut result), 0);
    }
    // No cancellation point followed.
    assert!(!result.is_null() && result.addr() != usize::MAX);
    let counts = select_persistent("plugin::**").unwrap().attach(Count::new()).unwrap();
    assert_eq!(counts.probes().len(), 5);
}

/// A probe of the plugin that is off at first.
struct Off(AtomicU64);

impl Consumer for Off {
    fn start(&self, _: probe_runtime::registry::ProbeId) -> Start {
        Start::Off
    }

    fn hit(&self, _event: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Consumers that can't take these probes say so when they are attached, or when probes join.
pub(super) fn impossible() {
    let refuses = |result: Result<(), Error>, why: &str| {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    };
    // A trigger on points, which have no time.
    let trigger = || Trigger::over(Duration::ZERO, |_| ());
    let points = select_persistent("plugin::value").unwrap();
    let late = points.attach(trigger()).unwrap();
    let off = select_persistent("plugin::value").unwrap().attach(Off(0.into())).unwrap();
    let library = Library::open(&plugin("plugin"));
    discover_probes();
    assert_eq!((library.function("plugin_sum")(2), off.0.load(Ordering::Relaxed)), (3, 0));
    let note = "1 probe that appeared later is left out: no calls can be timed here: these probes are \
                points; select entries and exits";
    assert_eq!(late.left_out_later().as_deref(), Some(note));
    refuses(
        select_persistent("plugin::value").unwrap().attach(trigger()).map(drop),
        "these probes are points",
    );
}

/// Predicates and groups are checked for each probe that joins.
pub(super) fn filtered() {
    let set = || select_persistent("plugin::**, **::own").unwrap();
    let predicate = |text: &str| text.parse().unwrap();
    let wrong = set().attach_if(&predicate("x > 1"), Count::new()).unwrap_err().to_string();
    assert!(wrong.contains("`x` is not a field of any probe here"), "{wrong}");
    let set = || select_persistent("plugin::**").unwrap();
    let above = set().attach_if(&predicate("x > 1"), Count::new()).unwrap();
    let none = set().attach_if(&predicate("nothing > 1"), Count::new()).unwrap();
    let slow = set().attach_if(&predicate("latency >= 0s"), Count::new()).unwrap();
    let sums = set().attach(Aggregate::new("sum(x) by(text)").unwrap()).unwrap();
    let times = set().attach(Aggregate::new("latency").unwrap()).unwrap();
    // As `PROBES` and `probectl` attach.
    let spec = "plugin::value[x > 1]=count, plugin::value[nothing > 1]=sum(x), plugin::each=latency";
    let named = spec.parse::<Spec>().unwrap().attach().unwrap();
    let library = Library::open(&plugin("plugin"));
    discover_probes();
    assert_eq!(library.function("plugin_sum")(4), 10);
    assert_eq!(named[0].attachment::<Count>().unwrap().total(), 2);
    let left_out = "plugin::value is left out: it has no field `nothing`";
    assert!(named.to_string().contains(left_out), "{named}");
    let latency = named[2].attachment::<Latency>().unwrap().latencies();
    assert_eq!(latency.function("plugin::each").map(FunctionLatency::calls), Some(4));
    let point = |hits: &probe_runtime::Attachment<Count>| hits.counts().hits("plugin::value", Kind::Point);
    assert_eq!((above.total(), point(&above)), (2, Some(2)));
    assert_eq!((none.total(), slow.total()), (0, 4 + 1));
    let [above, none] = [&above, &none].map(ToString::to_string);
    assert!(above.contains(" and 1 others are left out: it has no field `x`"), "{above}");
    assert!(none.contains(" and 2 others are left out: it has no field `nothing`"), "{none}");
    let groups = sums.groups();
    let group = groups.get(&["plugin"]).unwrap();
    assert_eq!((group.path(), group.count(), group.sum()), ("plugin::value", 4, 6.0));
    let times = times.groups();
    let of = |path: &str| {
        times.iter().find(|group| group.path() == path).map(probe_runtime::aggregate::Group::count)
    };
    assert_eq!([of("plugin::each"), of("plugin::plugin_sum")], [Some(4), Some(1)]);
    assert!(times.to_string().contains("plugin::value is left out: "), "{times}");
    library.close();
}
