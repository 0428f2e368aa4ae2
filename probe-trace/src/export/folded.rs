//! Folded stacks: one line for each distinct stack, with its self time in nanoseconds.
//!
//! ```text
//! server;main;app::main;app::read 1200
//! ```
//! Names are full paths, after those of program and thread. Semicolons and control characters of
//! names are escaped: `\x3b`. Calls that the trace cuts off count to where they are cut.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
    io::{self, Write},
};

use super::sink::Sink;
use crate::calls::{Step, Track};
use crate::item::{Thread, ThreadId};

pub(super) struct Folded<W> {
    writer: W,
    threads: HashMap<ThreadId, Stack>,
    /// Self times by stack.
    times: BTreeMap<String, u64>,
}

/// A thread's open calls.
struct Stack {
    /// The text of the stack.
    text: String,
    open: Vec<Open>,
}

struct Open {
    /// Length of the text without this call.
    before: usize,
    begin: u64,
    /// Time of the calls inside.
    inner: u64,
}

impl<W: Write> Folded<W> {
    pub(super) fn new(writer: W) -> Self {
        Self { writer, threads: HashMap::new(), times: BTreeMap::new() }
    }
}

impl<W: Write> Sink for Folded<W> {
    fn step(&mut self, step: &Step) -> io::Result<()> {
        match step {
            Step::Thread(thread) => {
                self.threads.insert(thread.id, Stack { text: root(thread), open: Vec::new() });
            }
            Step::Begin(begin) => {
                let Track::Thread(thread) = begin.track else { return Ok(()) };
                let Some(stack) = self.threads.get_mut(&thread) else { return Ok(()) };
                let before = stack.text.len();
                stack.text.push(';');
                escape(&mut stack.text, &begin.fields.definition().path);
                stack.open.push(Open { before, begin: begin.time, inner: 0 });
            }
            Step::End(end) => {
                let Track::Thread(thread) = end.track else { return Ok(()) };
                let Some(stack) = self.threads.get_mut(&thread) else { return Ok(()) };
                let Some(open) = stack.open.pop() else { return Ok(()) };
                let whole = end.time - open.begin;
                let own = whole.saturating_sub(open.inner);
                if own != 0 {
                    match self.times.get_mut(&stack.text) {
                        Some(time) => *time += own,
                        None => drop(self.times.insert(stack.text.clone(), own)),
                    }
                }
                stack.text.truncate(open.before);
                if let Some(outer) = stack.open.last_mut() {
                    outer.inner += whole;
                }
            }
            Step::Instant(_) | Step::Gap(_) => {}
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        for (stack, time) in &self.times {
            writeln!(self.writer, "{stack} {time}")?;
        }
        Ok(())
    }
}

/// Returns the names of program and thread, or their ids.
fn root(thread: &Thread) -> String {
    let mut text = String::new();
    match &*thread.program {
        "" => drop(write!(text, "process {}", thread.id.process)),
        program => escape(&mut text, program),
    }
    text.push(';');
    match &*thread.name {
        "" => drop(write!(text, "thread {}", thread.id.tid)),
        name => escape(&mut text, name),
    }
    text
}

fn escape(text: &mut String, name: &str) {
    for c in name.chars() {
        if c == ';' || c.is_control() {
            // Writing to a string never fails.
            let _ = write!(text, "\\x{:02x}", u32::from(c));
        } else {
            text.push(c);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::export::{Format, export};
    use crate::story::Story;

    #[test]
    fn stacks_have_their_self_times() {
        let story = Story::new()
            .thread(1, "ma;in")
            .hit(1, 1000, "entry app::f")
            .hit(1, 1100, "entry app::g")
            .hit(1, 1150, "exit app::g")
            .hit(1, 1200, "entry app::g")
            .hit(1, 1250, "exit app::g")
            .hit(1, 1400, "exit app::f")
            .hit(2, 1410, "entry app::f")
            .hit(2, 1410, "exit app::f")
            .hit(2, 1420, "entry app::h 64")
            .hit(2, 1430, "entry app::g")
            .gap(2, 1440, 1450, 1);
        let mut text = Vec::new();
        export(Format::Folded, story.results(), &mut text).unwrap();
        let expected = "\
process 7;thread 102;app::h 10
process 7;thread 102;app::h;app::g 10
server;ma\\x3bin;app::f 300
server;ma\\x3bin;app::f;app::g 100
";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
