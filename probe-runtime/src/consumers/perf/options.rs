//! The options in `PROBES`: `events=cycles+instructions, budget=1%`.

use super::{Perf, PerfEvent};
use probe_lang::{ParseError, Setting};

impl Perf {
    /// Creates a consumer with the options `events` and `budget`.
    pub(crate) fn with_settings(settings: &[Setting<'_>]) -> Result<Self, ParseError> {
        let (mut events, mut budget) = (None, None);
        for it in settings {
            if it.name() == "events" {
                events = Some(read_events(it)?);
            } else {
                budget = Some(it.value().parse().map_err(|why: String| it.invalid_value(why))?);
            }
        }
        let perf = events.map_or_else(Self::new, Self::of);
        Ok(match budget {
            Some(budget) => perf.budget(budget),
            None => perf,
        })
    }
}

fn read_events(setting: &Setting<'_>) -> Result<Vec<PerfEvent>, ParseError> {
    let mut events = Vec::new();
    let mut at = 0;
    for name in setting.value().split('+') {
        let at_name = at + name.len() - name.trim_start().len();
        let event = name.trim().parse();
        events.push(event.map_err(|why: String| setting.invalid_value_at(at_name, why))?);
        at += name.len() + 1;
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;
    use probe_lang::options::settings;

    fn from(options: &str) -> Result<Perf, ParseError> {
        Perf::with_settings(&settings(options).collect::<Vec<_>>())
    }

    fn found(options: &str) -> (Option<Vec<PerfEvent>>, bool) {
        let perf = from(options).unwrap();
        (perf.options.events.clone(), perf.profiler().is_some())
    }

    #[test]
    fn events_and_a_budget() {
        let two = Some(vec![PerfEvent::Cycles, PerfEvent::PageFaults]);
        assert_eq!(found("events=cycles+page-faults, budget=1%"), (two.clone(), true));
        assert_eq!(found(" events = cycles + page-faults "), (two, false));
        assert_eq!(found("budget=20/s"), (None, true));
    }

    #[test]
    fn an_error_points_at_its_option() {
        for (options, at, problem) in [
            ("events=cycles+ cycle", 15, "`cycle` is not an event; there is cycles,"),
            ("events=", 7, "`` is not an event"),
            ("budget= 1", 8, "`1` is not a budget; write `1%` or `1000/s`"),
            ("events=cycles,budget=-1%", 21, "`-1%` is not a budget"),
            ("budget=0%", 7, "`0%` leaves nothing to sample with; write `1%` or `1000/s`"),
            ("budget=101%", 7, "`101%` is more than all CPU time; "),
        ] {
            let mistake = from(options).unwrap_err();
            assert_eq!(mistake.at, at, "{options}: {}", mistake.problem);
            assert!(mistake.problem.starts_with(problem), "{options}: {}", mistake.problem);
        }
    }
}
