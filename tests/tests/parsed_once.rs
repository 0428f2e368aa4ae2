//! Each text passes its parsers once, by every way in: its selector, the whole spec, and the
//! options that make its consumer. Children of this process have the ways to themselves, since the
//! counters are of a whole process.
#![cfg(all(target_os = "linux", feature = "unoptimised", not(probe_portable), not(probe_off)))]

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use probe_lang::{selector, spec};
use probe_protocol::{Attach, Client};
use probe_runtime::spec::{Format, ParseError, Rendered, Reporter, Setting, Spec, register};
use probe_runtime::{Attachment, Consumer, Event, agent, init_from_env, probe};
use probe_tests::folder::Folder;
use probe_tests::scenario;

const TEXT: &str = "**::parsed_once::called=once";

#[probe]
#[inline(never)]
fn called() {}

/// A consumer that counts how often it is made.
struct Once;

static MADE: AtomicUsize = AtomicUsize::new(0);

impl Consumer for Once {
    fn hit(&self, _: &Event<'_>) {}
}

impl Reporter for Once {
    const NAME: &'static str = "once";
    const ABOUT: &'static str = "nothing";
    const FOR_CLIENTS: bool = true;

    fn from_settings(_: &[Setting<'_>]) -> Result<Self, ParseError> {
        MADE.fetch_add(1, Relaxed);
        Ok(Self)
    }

    fn report(_: &Attachment<Self>, _: Format) -> Rendered {
        Rendered::default()
    }
}

/// Returns the selectors and the specs that were parsed, and the consumers that were made.
fn counts() -> [usize; 3] {
    [&selector::PARSED, &spec::PARSED, &MADE].map(|count| count.load(Relaxed))
}

#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    called();
    register::<Once>().unwrap();
    assert_eq!(counts(), [0; 3]);
    match scenario::to_play().as_str() {
        "a spec" => {
            let spec = TEXT.parse::<Spec>().unwrap();
            let attached = spec.attach().unwrap();
            assert_eq!((attached.len(), counts()), (1, [1; 3]));
            // A second consumer is made of the same parsed text.
            let again = spec.clone().attach().unwrap();
            assert_eq!((again.len(), counts()), (1, [1, 1, 2]));
        }
        "the environment" => {
            let _probes = init_from_env().unwrap();
            assert_eq!(counts(), [1; 3]);
        }
        "a list" => {
            let _probes = init_from_env().unwrap();
            assert_eq!(counts(), [1, 0, 0]);
        }
        _ => {
            let socket = agent::start().unwrap();
            let attached = Client::connect_to(&socket).unwrap().attach(&Attach::new(TEXT)).unwrap();
            assert_eq!((attached.consumers.len(), counts()), (1, [1; 3]));
        }
    }
}

#[test]
fn a_text_is_parsed_once_by_every_way_in() {
    let folder = Folder::new("parsed-once");
    fs::set_permissions(&*folder, Permissions::from_mode(0o700)).unwrap();
    for way in ["a spec", "the environment", "a list", "the agent"] {
        let probes = match way {
            "the environment" => TEXT,
            "a list" => "**::parsed_once::called=list",
            _ => "",
        };
        let variables = [("PROBES", OsStr::new(probes)), ("XDG_RUNTIME_DIR", folder.as_os_str())];
        let output = scenario::play(way, &variables);
        assert!(output.status.success(), "{way}: {output:?}");
    }
}
