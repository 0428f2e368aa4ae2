//! Triggers without the feature `trace`: a text with one is refused, so there is none.

use std::convert::Infallible;
use std::fmt::{self, Display};
use std::marker::PhantomData;

use super::asked::{AttachedText, Failed, ReportFiles};
use super::parse::{Asked, needs};
use crate::engine::error::Error;
use crate::engine::registry::ProbeId;
use probe_lang::ParseError;
use probe_lang::trigger::WHEN;

#[derive(Clone, Debug)]
pub(crate) struct TriggerRequest<'a> {
    pub(super) at: usize,
    never: (Infallible, PhantomData<&'a ()>),
}

impl<'a> TriggerRequest<'a> {
    pub(super) fn parse(_text: &'a str, at: usize) -> Result<(Self, usize), ParseError> {
        Err(ParseError { at, problem: needs(WHEN, "trace") })
    }
}

impl Display for TriggerRequest<'_> {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.never.0 {}
    }
}

#[derive(Default, Debug)]
pub(crate) struct Triggers(Vec<Infallible>);

impl Triggers {
    pub(crate) fn end(&self) {
        if let Some(never) = self.0.first() {
            match *never {}
        }
    }
}

pub(super) struct Selected(Infallible);

impl Selected {
    pub(super) fn more(&self) -> &[ProbeId] {
        match self.0 {}
    }
}

impl Asked<'_> {
    #[expect(clippy::unnecessary_wraps, reason = "as with the feature")]
    pub(super) fn selected(&self, _: Failed<'_>) -> Result<Vec<Selected>, Error> {
        Ok(self.triggers.iter().map(|it| match it.never.0 {}).collect())
    }

    #[expect(clippy::needless_pass_by_value, clippy::unnecessary_wraps, reason = "as with the feature")]
    pub(super) fn arm(
        &self,
        selected: Vec<Selected>,
        _: &ReportFiles,
        _: &mut AttachedText,
        _: Failed<'_>,
    ) -> Result<(), Error> {
        let _ = self;
        match selected.first() {
            Some(never) => match never.0 {},
            None => Ok(()),
        }
    }
}
