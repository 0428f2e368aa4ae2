//! Which function's machine code is at an address. Pure.
//!
//! A machine function whose first site is an entry is that function's, from its beginning to its
//! end. Within it, what lies between the entry and the last exit of an inlined copy of another
//! function is that function's; the innermost copy counts. In a machine function of a function
//! without probes, only such copies are known.
//!
//! ```text
//! f's machine function:  ├ f ─┬───── g ─────┬── f ──┬ …
//! sites:                   f↓   g↓  g↑   g↑   f↑
//! ```

use std::ops::Range;

use crate::engine::control::SitePlace;

/// The farthest from the beginning of a machine function that its own entry is. Saving registers,
/// and touching each page of a large frame, comes before.
const MAX_ENTRY_OFFSET_BYTES: usize = 256;

/// The code of all functions, by address.
#[derive(Clone, Default, Debug)]
pub(super) struct Code {
    /// Ranges of code and their functions, by their beginnings. Those of a machine function follow
    /// each other, the whole one first.
    ranges: Vec<(Range<usize>, u32)>,
    /// For each machine function with sites: its range, and its first in `ranges`.
    machine: Vec<(Range<usize>, usize)>,
}

impl Code {
    /// Reads sites, by address. `part` returns the function of a site, and whether a call or a poll
    /// begins there; `None` if neither begins or ends there.
    pub(super) fn new(
        sites: &[SitePlace],
        functions: usize,
        part: impl Fn(&SitePlace) -> Option<(u32, bool)>,
    ) -> Self {
        let mut code = Self::default();
        // The last range that began of each function in the present machine function.
        let mut open = vec![usize::MAX; functions];
        for sites in sites.chunk_by(|a, b| a.around == b.around) {
            let (around, first) = (sites[0].around.clone(), code.ranges.len());
            let parts = || sites.iter().filter_map(|site| Some((site.addr, part(site)?)));
            let mut whole = parts()
                .next()
                .filter(|(addr, (_, begins))| *begins && addr - around.start <= MAX_ENTRY_OFFSET_BYTES);
            if parts().all(|(_, (_, begins))| !begins) {
                // The part of a function that is far from the rest, because it is seldom executed.
                whole = parts().last();
            }
            if let Some((_, (function, _))) = whole {
                code.ranges.push((around.clone(), function));
            }
            for (addr, (function, begins)) in parts() {
                let Some(open) = open.get_mut(function as usize) else { continue };
                if whole.is_some_and(|(_, (own, _))| own == function) {
                    continue;
                }
                if begins {
                    *open = code.ranges.len();
                    code.ranges.push((addr..addr, function));
                } else if *open >= first && *open < code.ranges.len() {
                    code.ranges[*open].0.end = addr;
                }
            }
            code.machine.push((around, first));
        }
        code
    }

    /// Returns the function whose code is at an address.
    pub(super) fn function_at(&self, addr: usize) -> Option<u32> {
        let at = self.machine.partition_point(|(around, _)| around.start <= addr).checked_sub(1)?;
        let (around, first) = &self.machine[at];
        let end = self.machine.get(at + 1).map_or(self.ranges.len(), |(_, first)| *first);
        let of_machine = self.ranges.get(*first..end).filter(|_| around.contains(&addr))?;
        of_machine.iter().rev().find(|(range, _)| range.contains(&addr)).map(|(_, function)| *function)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::registry::ProbeId;

    /// Probe `2 n` is the entry of function `n`, and `2 n + 1` its exit.
    fn code(sites: &[(usize, usize, Range<usize>)]) -> Code {
        let place = |(addr, probe, around): &(usize, usize, Range<usize>)| SitePlace {
            addr: *addr,
            probe: ProbeId::new(*probe),
            around: around.clone(),
        };
        let sites: Vec<_> = sites.iter().map(place).collect();
        let part = |site: &SitePlace| {
            let probe = site.probe.index();
            Some((u32::try_from(probe / 2).unwrap(), probe.is_multiple_of(2)))
        };
        Code::new(&sites, 4, part)
    }

    fn at<const N: usize>(code: &Code, addrs: [usize; N]) -> [Option<u32>; N] {
        addrs.map(|addr| code.function_at(addr))
    }

    #[test]
    fn code_between_the_sites_of_an_inlined_function_is_its_own() {
        let (one, other) = (100..200, 300..400);
        let code = code(&[
            // Function 0, with two copies of function 1 inside, the first of which has two exits.
            (104, 0, one.clone()),
            (110, 2, one.clone()),
            (120, 3, one.clone()),
            (130, 3, one.clone()),
            (150, 2, one.clone()),
            // In the second copy, one of function 2.
            (152, 4, one.clone()),
            (156, 5, one.clone()),
            (160, 3, one.clone()),
            (180, 1, one),
            // The exit of function 3, far from its entry.
            (310, 7, other),
        ]);
        assert_eq!(at(&code, [99, 100, 104, 109, 200, 250]), [None, Some(0), Some(0), Some(0), None, None]);
        assert_eq!(at(&code, [110, 125, 130, 149, 199]), [Some(1), Some(1), Some(0), Some(0), Some(0)]);
        assert_eq!(at(&code, [151, 152, 155, 156, 160]), [Some(1), Some(2), Some(2), Some(1), Some(0)]);
        assert_eq!(at(&code, [299, 300, 399, 400]), [None, Some(3), Some(3), None]);
    }

    #[test]
    fn code_without_probes_is_nobodys() {
        // Function 1 is inlined late in a function without probes, and has no exit in another.
        let code = code(&[(900, 2, 100..2000), (950, 3, 100..2000), (2500, 2, 2000..3000)]);
        assert_eq!(at(&code, [100, 899, 900, 949, 950]), [None, None, Some(1), Some(1), None]);
        assert_eq!(at(&code, [2000, 2500, 2501]), [None; 3]);
        assert_eq!(at(&Code::default(), [7]), [None]);
    }
}
