//! Function beginnings that stand for a site: each call of the function passes the site once.
//!
//! A function is decoded at the first question for one of its sites. The instructions of its
//! beginning are kept, so all sites of a file cost one pass over the functions that have them.

use std::collections::HashMap;

use super::error::Problem;
use super::functions::Functions;
use super::image::Image;
use super::straight_line::passed_once;

/// Bytes of a function that are decoded. Nothing is known of a longer one.
const MAX_FUNCTION_LEN: usize = 1 << 20;

/// The functions of a file, as far as they were asked for.
pub struct FunctionStarts<'a> {
    image: &'a Image,
    functions: &'a Functions,
    /// By the function's address: the addresses of what each call passes once.
    passed: HashMap<u64, Vec<u64>>,
}

impl<'a> FunctionStarts<'a> {
    /// Begins with no function.
    pub fn new(image: &'a Image, functions: &'a Functions) -> Self {
        Self { image, functions, passed: HashMap::new() }
    }

    /// Returns the beginning of the function around a site, if each of its calls is known to pass
    /// the site exactly once.
    ///
    /// # Errors
    /// The system's.
    pub fn of(&mut self, site: u64) -> Result<Option<u64>, Problem> {
        let all = &self.functions.starts;
        let next = all.partition_point(|start| *start <= site);
        let Some(start) = next.checked_sub(1).map(|at| all[at]) else { return Ok(None) };
        if !self.passed.contains_key(&start) {
            let passed = self.read(start, all.get(next).copied())?;
            self.passed.insert(start, passed);
        }
        Ok(self.passed[&start].binary_search(&site).is_ok().then_some(start))
    }

    /// Decodes the function between its beginning and that of the next one. The last one ends with
    /// the text.
    fn read(&self, start: u64, next: Option<u64>) -> Result<Vec<u64>, Problem> {
        let Some(end) = self.image.end_of_code(start) else { return Ok(Vec::new()) };
        let length = next.map_or(end, |next| next.min(end)) - start;
        let length = usize::try_from(length).ok().filter(|length| *length <= MAX_FUNCTION_LEN);
        let mut code = Vec::new();
        match length {
            Some(length) if self.image.read_into(start, length, &mut code)? => Ok(passed_once(&code, start)),
            _ => Ok(Vec::new()),
        }
    }
}
