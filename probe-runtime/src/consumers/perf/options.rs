//! Options as `PROBES` has them: `events=cycles+instructions, budget=1%`.

use super::{Perf, PerfEvent};
use crate::error::Mistake;

impl Perf {
    /// One with these options.
    pub(crate) fn from_options(options: &str) -> Result<Self, Mistake> {
        let (mut events, mut budget) = (None, None);
        let mut at = 0;
        for option in options.split(',') {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            let value_at = at + name.len() + 1;
            match name.trim() {
                "events" => events = Some(read_events(value, value_at)?),
                "budget" => {
                    budget = Some(value.parse().map_err(|problem| mistake(value, value_at, problem))?);
                }
                other => {
                    let problem = format!("`{other}` is not an option of `perf`; there is events, budget");
                    return Err(mistake(option, at, problem));
                }
            }
            at += option.len() + 1;
        }
        let perf = events.map_or_else(Self::new, Self::of);
        Ok(match budget {
            Some(budget) => perf.budget(budget),
            None => perf,
        })
    }
}

fn read_events(value: &str, mut at: usize) -> Result<Vec<PerfEvent>, Mistake> {
    let mut events = Vec::new();
    for name in value.split('+') {
        events.push(name.trim().parse().map_err(|problem| mistake(name, at, problem))?);
        at += name.len() + 1;
    }
    Ok(events)
}

/// Where the text, which begins at this byte, says something.
fn mistake(text: &str, at: usize, problem: String) -> Mistake {
    Mistake { at: at + (text.len() - text.trim_start().len()), problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(options: &str) -> (Option<Vec<PerfEvent>>, bool) {
        let perf = Perf::from_options(options).unwrap();
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
    fn a_mistake_is_pointed_at() {
        for (options, at, problem) in [
            ("", 0, "`` is not an option of `perf`; there is events, budget"),
            ("events=cycles, epoch=1", 15, "`epoch` is not an option"),
            ("events=cycles+ cycle", 15, "`cycle` is not an event; there is cycles,"),
            ("events=", 7, "`` is not an event"),
            ("budget= 1", 8, "`1` is not a budget; write `1%` or `1000/s`"),
            ("events=cycles,budget=-1%", 21, "`-1%` is not a budget"),
        ] {
            let mistake = Perf::from_options(options).unwrap_err();
            assert_eq!(mistake.at, at, "{options}: {}", mistake.problem);
            assert!(mistake.problem.starts_with(problem), "{options}: {}", mistake.problem);
        }
    }
}
