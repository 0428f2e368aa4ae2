//! The consumers that a text may name: this crate's, and those that the program has registered.
//!
//! Life cycle: [`register`] appends a row to a list; rows are never removed. Cost: reading a text
//! walks the list, with one row per consumer.

use std::any::TypeId;
use std::iter;
use std::sync::OnceLock;

use super::Format;
use super::builder::{Built, build_consumer};
use super::reporter::Reporter;
#[cfg(feature = "call-tree")]
use crate::consumers::CallTree;
#[cfg(feature = "perf")]
use crate::consumers::Perf;
#[cfg(feature = "profiler")]
use crate::consumers::Profiler;
#[cfg(feature = "trace")]
use crate::consumers::Trace;
#[cfg(feature = "tracing")]
use crate::consumers::Tracing;
use crate::consumers::{Aggregate, Count, Memory};
#[cfg(feature = "latency")]
use crate::consumers::{Latency, Slow};
use crate::engine::error::Error;
use crate::engine::sites::TextPolicy;
use probe_lang::options::settings;
use probe_lang::{ParseError, Setting};

/// The option that every consumer has: its text policy.
const TEXT: &str = "text";

/// Parses [`TEXT`].
fn text(setting: &Setting<'_>) -> Result<TextPolicy, ParseError> {
    match setting.value() {
        "sealed" => Ok(TextPolicy::Sealed),
        "open" => Ok(TextPolicy::Open),
        "alias" => Ok(TextPolicy::Alias),
        other => {
            let problem = format!("`{other}` is not a text policy; there are sealed, open and alias");
            Err(setting.invalid_value(problem))
        }
    }
}

/// A consumer's row, from its [`Reporter`].
pub(crate) struct ConsumerRow {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) example: &'static str,
    pub(crate) formats: &'static [Format],
    options: &'static [&'static str],
    /// Whether clients of the agent may attach it.
    #[cfg(probe_agent)]
    pub(super) is_for_clients: bool,
    /// Whether it adds figures to a report in Prometheus's text.
    is_measured: bool,
    make: fn(&[Setting<'_>]) -> Result<Built, ParseError>,
    consumer: fn() -> TypeId,
}

static BUILT_IN: &[ConsumerRow] = &[
    ConsumerRow::of::<Count>(),
    ConsumerRow::of::<Memory>(),
    #[cfg(feature = "latency")]
    ConsumerRow::of::<Latency>(),
    #[cfg(feature = "latency")]
    ConsumerRow::of::<Slow>(),
    #[cfg(feature = "call-tree")]
    ConsumerRow::of::<CallTree>(),
    #[cfg(feature = "profiler")]
    ConsumerRow::of::<Profiler>(),
    #[cfg(feature = "perf")]
    ConsumerRow::of::<Perf>(),
    #[cfg(feature = "trace")]
    ConsumerRow::of::<Trace>(),
    #[cfg(feature = "tracing")]
    ConsumerRow::of::<Tracing>(),
];

/// Aggregations: their texts are expressions, and not options. `count` and `latency` are such if
/// `by` follows.
pub(super) static AGGREGATIONS: [ConsumerRow; 9] = [
    ConsumerRow::of::<Aggregate>(),
    ConsumerRow { name: "min", about: "the least number of each group", ..ConsumerRow::of::<Aggregate>() },
    ConsumerRow { name: "max", about: "the greatest number of each group", ..ConsumerRow::of::<Aggregate>() },
    ConsumerRow { name: "avg", about: "the mean of each group", ..ConsumerRow::of::<Aggregate>() },
    ConsumerRow { name: "quantize", about: "a histogram of powers of two", ..ConsumerRow::of::<Aggregate>() },
    ConsumerRow {
        name: "until",
        about: "the time to a hit of another probe with the same key",
        example: "net::sent",
        ..ConsumerRow::of::<Aggregate>()
    },
    ConsumerRow {
        name: "held",
        about: "how long locks are held, and by which threads",
        example: "",
        ..ConsumerRow::of::<Aggregate>()
    },
    ConsumerRow { name: "count", ..ConsumerRow::of::<Aggregate>() },
    ConsumerRow { name: "latency", ..ConsumerRow::of::<Aggregate>() },
];

/// Those that have a name of their own.
const OWN_NAMES: usize = 7;

/// Consumers of features that may be off, with their features.
pub(crate) const FEATURES: [(&str, &str); 7] = [
    ("latency", "latency"),
    ("slow", "latency"),
    ("call-tree", "call-tree"),
    ("profile", "profiler"),
    ("perf", "perf"),
    ("trace", "trace"),
    ("tracing", "tracing"),
];

/// Words that `PROBES` takes in place of a consumer, or alone.
const WORDS: [&str; 2] = ["list", "help"];

/// A registered row, and the next one.
struct Registered {
    row: ConsumerRow,
    next: Next,
}

type Next = OnceLock<Box<Registered>>;

static REGISTERED: Next = Next::new();

/// Makes a consumer available to [`Spec`](crate::spec::Spec),
/// [`attach_spec`](crate::spec::attach_spec) and `PROBES`. Call it in `main`, before
/// [`init_from_env`](crate::init_from_env), and before another thread may fork. Registering a
/// consumer again changes nothing.
///
/// See [`Reporter`] for an example.
///
/// # Errors
/// [`Error::Register`] if another consumer has that name, even one of a feature that is off, or if
/// its [`Reporter`] has unusable constants: a name or an option's name with characters other than
/// small letters, digits, `-` and `_`, or formats without [`Format::Text`].
///
/// ```
/// use probe_runtime::Count;
/// use probe_runtime::spec::register;
/// // The crate's own consumers are registered already.
/// register::<Count>()?;
/// # Ok::<(), probe_runtime::Error>(())
/// ```
pub fn register<C: Reporter>() -> Result<(), Error> {
    let mut row = ConsumerRow::of::<C>();
    row.check().map_err(|problem| Error::Register { name: C::NAME, problem })?;
    loop {
        let mut next = &REGISTERED;
        while let Some(registered) = next.get() {
            next = &registered.next;
        }
        // The name is looked up after the end was found: a row that is added later takes this end.
        if let Some(other) = ConsumerRow::named(C::NAME) {
            let problem = "another consumer has this name; choose another one".to_owned();
            let is_same = (other.consumer)() == TypeId::of::<C>();
            return if is_same { Ok(()) } else { Err(Error::Register { name: C::NAME, problem }) };
        }
        match next.set(Box::new(Registered { row, next: Next::new() })) {
            Ok(()) => return Ok(()),
            Err(back) => row = back.row,
        }
    }
}

/// Returns whether a text parses as one name of a consumer or an option.
fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || b"-_".contains(&it))
}

impl ConsumerRow {
    const fn of<C: Reporter>() -> Self {
        Self {
            name: C::NAME,
            about: C::ABOUT,
            example: C::EXAMPLE,
            formats: C::FORMATS,
            options: C::OPTIONS,
            #[cfg(probe_agent)]
            is_for_clients: C::FOR_CLIENTS,
            #[cfg(feature = "metrics")]
            is_measured: C::MEASURE.is_some(),
            #[cfg(not(feature = "metrics"))]
            is_measured: false,
            make: build_consumer::<C>,
            consumer: TypeId::of::<C>,
        }
    }

    /// Returns the aggregations that are no other consumer's name, too.
    pub(crate) fn aggregations() -> &'static [Self] {
        &AGGREGATIONS[..OWN_NAMES]
    }

    /// Returns all rows of consumers with options, this crate's first.
    pub(crate) fn all() -> impl Iterator<Item = &'static Self> {
        let registered = iter::successors(REGISTERED.get(), |it| it.next.get());
        BUILT_IN.iter().chain(registered.map(|it| &it.row))
    }

    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        Self::all().chain(Self::aggregations()).find(|row| row.name == name)
    }

    /// Checks that the row can be registered.
    fn check(&self) -> Result<(), String> {
        let names = "small letters, digits, `-` and `_`";
        if !is_name(self.name) {
            return Err(format!("a consumer's name has {names} only"));
        }
        let reserved = FEATURES.iter().find(|(name, _)| *name == self.name && Self::named(name).is_none());
        if let Some((_, feature)) = reserved {
            return Err(format!("it is the name of a consumer of the feature `{feature}`"));
        }
        if WORDS.contains(&self.name) {
            return Err(format!("`PROBES={}` asks for something else", self.name));
        }
        if let Some(option) = self.options.iter().find(|it| !is_name(it) || **it == TEXT) {
            return Err(if *option == TEXT {
                format!("every consumer has an option `{TEXT}` already")
            } else {
                format!("its option `{option}` can't be read; an option's name has {names} only")
            });
        }
        let is_again = |(at, option): &(usize, &&str)| self.options[..*at].contains(*option);
        if let Some((_, option)) = self.options.iter().enumerate().find(is_again) {
            return Err(format!("its option `{option}` is there twice"));
        }
        if !self.formats.contains(&Format::Text) {
            return Err("its formats lack `Format::Text`".to_owned());
        }
        match (self.formats.contains(&Format::Prometheus), self.is_measured) {
            (true, false) if !cfg!(feature = "metrics") => {
                Err("`Format::Prometheus` needs the feature `metrics`".to_owned())
            }
            (true, false) => Err("`Format::Prometheus` needs its `MEASURE`".to_owned()),
            (false, true) => Err("it has a `MEASURE`, and its formats lack `Format::Prometheus`".to_owned()),
            _ => Ok(()),
        }
    }

    /// Builds a consumer from the text in parentheses. The offset of an error counts from the start
    /// of the options.
    pub(super) fn read(&self, options: Option<&str>) -> Result<Built, ParseError> {
        let (mut own, mut policy) = (Vec::new(), TextPolicy::default());
        for it in options.into_iter().flat_map(settings) {
            if it.name() == TEXT {
                policy = text(&it)?;
            } else if self.options.contains(&it.name()) {
                own.push(it);
            } else {
                let all: Vec<_> = self.options.iter().copied().chain([TEXT]).collect();
                let (other, name, all) = (it.name(), self.name, all.join(", "));
                return Err(
                    it.invalid_name(format!("`{other}` is not an option of `{name}`; there is {all}"))
                );
            }
        }
        let mut built = (self.make)(&own)?;
        built.text = policy;
        Ok(built)
    }
}

#[cfg(test)]
mod tests {
    use super::super::reporter::Rendered;
    use super::*;
    use crate::engine::control::{Attachment, Consumer};
    use crate::engine::dispatch::Event;

    /// A consumer whose name depends on `AT`.
    struct Named<const AT: usize>;

    const NAMES: [&str; 5] = ["named", "named", "Named", "list", "named-2"];

    impl<const AT: usize> Consumer for Named<AT> {
        fn hit(&self, _: &Event<'_>) {}
    }

    impl<const AT: usize> Reporter for Named<AT> {
        const NAME: &'static str = NAMES[AT];
        const ABOUT: &'static str = "nothing";

        fn from_settings(_: &[Setting<'_>]) -> Result<Self, ParseError> {
            Ok(Self)
        }

        fn report(_: &Attachment<Self>, _: Format) -> Rendered {
            Rendered::default()
        }
    }

    fn refused<C: Reporter>() -> String {
        match register::<C>() {
            Err(Error::Register { name, problem }) if name == C::NAME => problem,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_consumer_is_registered_once_and_a_name_belongs_to_one() {
        std::thread::scope(|scope| {
            (0..4).for_each(|_| _ = scope.spawn(|| register::<Named<0>>().unwrap()));
            (0..4).for_each(|_| _ = scope.spawn(|| register::<Named<4>>().unwrap()));
        });
        let rows = |name| ConsumerRow::all().filter(|row| row.name == name).count();
        assert_eq!((rows("named"), rows("named-2"), rows("count")), (1, 1, 1));
        assert_eq!(refused::<Named<1>>(), "another consumer has this name; choose another one");
        register::<Count>().unwrap();
        assert_eq!(rows("count"), 1);
    }

    #[test]
    fn consumers_with_unusable_names_are_refused() {
        assert_eq!(refused::<Named<2>>(), "a consumer's name has small letters, digits, `-` and `_` only");
        assert_eq!(refused::<Named<3>>(), "`PROBES=list` asks for something else");
        let row = |options, formats| ConsumerRow { formats, options, ..ConsumerRow::of::<Named<0>>() };
        let (text, csv): (&[_], &[_]) = (&[Format::Text], &[Format::Csv]);
        for (row, problem) in [
            (row(&["text"], text), "every consumer has an option `text` already"),
            (
                row(&["a b"], text),
                "its option `a b` can't be read; an option's name has small letters, digits, `-` and `_` only",
            ),
            (row(&["a", "b", "a"], text), "its option `a` is there twice"),
            (row(&[], csv), "its formats lack `Format::Text`"),
            (
                row(&[], &[Format::Text, Format::Prometheus]),
                if cfg!(feature = "metrics") {
                    "`Format::Prometheus` needs its `MEASURE`"
                } else {
                    "`Format::Prometheus` needs the feature `metrics`"
                },
            ),
        ] {
            assert_eq!(row.check().unwrap_err(), problem);
        }
    }

    #[test]
    fn text_has_three_policies() {
        let read = |options| text(&settings(options).next().unwrap());
        assert!(matches!(read("text=alias"), Ok(TextPolicy::Alias)));
        assert!(matches!(read("text = open"), Ok(TextPolicy::Open)));
        assert!(matches!(read("text=sealed"), Ok(TextPolicy::Sealed)));
        let mistake = read("text= shut").unwrap_err();
        assert_eq!(
            (mistake.at, mistake.problem.as_str()),
            (6, "`shut` is not a text policy; there are sealed, open and alias")
        );
    }

    #[test]
    fn the_name_of_a_feature_that_is_off_stays_free() {
        for (name, feature) in FEATURES {
            let is_off = ConsumerRow::named(name).is_none();
            let row = ConsumerRow { name, ..ConsumerRow::of::<Named<0>>() };
            let problem = format!("it is the name of a consumer of the feature `{feature}`");
            assert_eq!(row.check().err(), is_off.then_some(problem));
        }
    }
}
