//! Turns of functions. An armed function goes on, perhaps in another mode, or becomes latent.
//! Latent functions are armed again.

use std::ops::Add;

use super::super::anchors::{Mark, TRIED};
use super::super::budget::Spent;
use super::super::mode::Mode;
use super::course::State;
use super::{LEFT_OUT, Orders, PLANNED, Schedule};

/// The shortest window that counts, in first looks, and the longest one, as a part of an epoch.
const COUNTED: f64 = 4.0;
const LONGEST: f64 = 0.5;
/// One of so many epochs times latent functions. The epoch in the middle between two of these times
/// always counted functions.
const TIMED: u32 = 8;
/// Calls between two samples of an always counted function, in samples.
const APART: f64 = 4.0;
/// An always counted function may come so many times as often, in one epoch or another, as when it
/// was admitted.
const LENIENT: f64 = 2.0;
/// How many epochs pass between two choices of anchors.
const CHOSEN: u32 = 16;

impl Schedule {
    /// Whether an armed function stays armed, perhaps in another mode. Otherwise its window ends.
    pub(super) fn goes_on(&mut self, function: usize, orders: &mut Orders) -> bool {
        let course = &self.courses[function];
        let is_hot =
            course.expected(self.epochs).is_some_and(|rate| !self.sustains(function, self.counting(rate)));
        if !course.is_over(is_hot, self.busy, &self.bucket, &self.settings) {
            return true;
        }
        let is_counting = course.mode() == Some(Mode::Counting);
        self.finish(function);
        let course = &mut self.courses[function];
        let rate = course.expected(self.epochs).unwrap_or_default();
        // A function that was counted before it was timed keeps its share. Epochs decide about that
        // share, over longer times.
        let share = self.courses[function].share;
        let each = if share.calls > 0.0 { share } else { self.counting(rate) };
        if is_counting || !self.sustains(function, each) {
            self.set_share(function, Spent::default());
            return false;
        }
        self.set_share(function, each);
        let marks = self.marks();
        self.courses[function].go_on(Mode::Counting, f64::INFINITY, self.burden, &marks);
        orders.count.push(function);
        true
    }

    /// Whether a function's calls may always be counted, at this cost for each tick of the program,
    /// together with all functions that are.
    fn sustains(&self, function: usize, each: Spent) -> bool {
        let course = &self.courses[function];
        let all = self.always - course.share + each;
        self.bucket.sustains(all, self.busy) && course.bucket.sustains(each, self.busy)
    }

    fn set_share(&mut self, function: usize, share: Spent) {
        let course = &mut self.courses[function];
        self.always = self.always - std::mem::replace(&mut course.share, share) + share;
    }

    /// Reviews always counted functions, as seen in the last epoch. If they cost too much, the most
    /// called ones are not counted any more.
    pub(super) fn weigh_always(&mut self, armed: &[usize]) {
        let counted = armed.iter().filter(|function| self.courses[**function].is_always_counted());
        let mut rates: Vec<_> = counted.map(|function| (*function, 0.0)).collect();
        for (function, rate) in &mut rates {
            let course = &mut self.courses[*function];
            *rate = course.rate_of_epoch();
            course.note_peak(*rate, self.epochs);
            course.share = Spent::default();
        }
        // Summed anew each time: sums of differences drift.
        self.always = self.courses.iter().map(|course| course.share).fold(Spent::default(), Add::add);
        crate::order::sort_by(&mut rates, |(_, a), (_, b)| a.total_cmp(b));
        for (function, rate) in rates.into_iter().filter(|(_, rate)| *rate > 0.0) {
            if self.sustains(function, self.counting(rate / LENIENT)) {
                self.set_share(function, self.counting(rate));
            } else if let State::Open(open) = &mut self.courses[function].state {
                open.planned = 0.0;
            }
        }
    }

    /// Chooses the most called functions without gaps as anchors.
    pub(super) fn choose_anchors(&mut self) {
        if self.epochs > CHOSEN && !self.epochs.is_multiple_of(CHOSEN) {
            return;
        }
        let marks = self.courses.iter().enumerate().filter_map(|(function, course)| course.mark(function));
        let mut marks: Vec<_> = marks.filter(|mark| mark.calls != 0).collect();
        crate::order::sort_by(&mut marks, |a, b| b.calls.cmp(&a.calls));
        self.anchors = marks.into_iter().take(TRIED).map(|mark| mark.anchor).collect();
    }

    /// The states of the anchors.
    pub(super) fn marks(&self) -> Vec<Mark> {
        self.anchors.iter().filter_map(|anchor| self.courses[*anchor].mark(*anchor)).collect()
    }

    /// Arms latent functions, as far as the buckets reach. It arms none while always counted
    /// functions with long calls are timed, since hits of others, and looks at them, would make
    /// these calls longer.
    pub(super) fn rearm(&mut self, orders: &mut Orders) {
        if !self.bucket.has_room() || !orders.time.is_empty() {
            return;
        }
        let is_timing = self.epochs.is_multiple_of(TIMED);
        let mut armed = Vec::new();
        let mut planned = Spent::default();
        // Once around: functions that are passed over keep their order.
        for _ in 0..self.latent.len() {
            let Some(function) = self.latent.pop_front() else { break };
            let rate = self.courses[function].expected(self.epochs).unwrap_or_default();
            let own = if is_timing { self.timing(function) } else { self.counting(rate) };
            let all = planned + own;
            // A function that costs more than there is gets its turn when nothing else does.
            let fits = if is_timing {
                self.bucket.left_after(all) > 0.0
            } else {
                self.lasts(all) >= self.shortest()
            };
            if !(fits || armed.is_empty()) || !self.courses[function].bucket.has_room() {
                self.latent.push_back(function);
                continue;
            }
            planned = all;
            armed.push(function);
        }
        let lasts = self.lasts(planned).min(LONGEST * self.settings.epoch).max(self.shortest());
        for function in &armed {
            if is_timing {
                let sample = self.sample(*function).max(self.settings.first_look);
                self.open(*function, Mode::Timing, sample);
            } else {
                self.open(*function, Mode::Counting, lasts);
            }
        }
        if is_timing { &mut orders.time } else { &mut orders.count }.extend(armed);
    }

    /// How long a function's sample takes, and more: on each of the threads, so that the look that
    /// ends it interrupts none of these calls.
    fn sample(&self, function: usize) -> f64 {
        let rate = self.courses[function].expected(self.epochs).unwrap_or_default();
        (PLANNED * self.settings.sample_size / rate).min(LEFT_OUT * self.settings.epoch)
    }

    fn shortest(&self) -> f64 {
        COUNTED * self.settings.first_look
    }

    /// For how long calls of this cost, for each tick of the program, may be counted.
    fn lasts(&self, each: Spent) -> f64 {
        self.bucket.affords(each, self.settings.epoch, self.busy)
    }

    fn open(&mut self, function: usize, mode: Mode, planned: f64) {
        let course = &mut self.courses[function];
        let State::Latent { since } = course.state else { return };
        course.state = State::Opening { since, mode, planned };
        course.rearmed += 1;
    }

    /// In one of the epochs, times always counted functions that were called often enough since the
    /// last time, as far as the bucket reaches, but at least one. A timed function comes last the
    /// next time.
    pub(super) fn time_what_is_counted(&mut self, orders: &mut Orders) {
        if self.epochs % TIMED != TIMED / 2 {
            return;
        }
        let mut planned = Spent::default();
        for function in std::mem::take(&mut self.armed) {
            let course = &self.courses[function];
            let is_due = course.is_always_counted() && course.untimed() >= APART * self.settings.sample_size;
            let all = planned + self.timing(function);
            let is_first = orders.time.is_empty() && self.bucket.has_room();
            if !is_due || !course.bucket.has_room() || !(is_first || self.bucket.left_after(all) > 0.0) {
                self.armed.push(function);
                continue;
            }
            planned = all;
            self.finish(function);
            let (sample, marks) = (self.sample(function), self.marks());
            let course = &mut self.courses[function];
            course.go_on(Mode::Timing, sample, self.burden, &marks);
            course.rearmed += 1;
            orders.time.push(function);
        }
        self.armed.extend(orders.time.iter().filter(|function| self.courses[**function].is_open()));
    }
}
