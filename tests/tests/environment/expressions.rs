//! Predicates and aggregations in `PROBES`.

use super::says;

#[test]
fn a_predicate_lets_some_hits_through() {
    says(
        "environment::net::parsed[bytes > 0]=count, \
         environment::net::parsed[bytes == 4 + 1 || first 1]=sum(bytes)",
        true,
        "probe                     kind   sites  hits\n\
         environment::net::parsed  point      1     1\n\
         probe                     count  sum\n\
         environment::net::parsed      2    5",
    );
    says(
        "environment::net::parsed=count by(bytes)",
        true,
        "probe                     bytes  count\n\
         environment::net::parsed      0      1\n\
         environment::net::parsed      5      1",
    );
}

#[test]
fn a_mistake_in_an_expression_is_pointed_at() {
    says(
        "environment::store kind=exit=count, environment::net::parsed[size > 0]=count",
        true,
        "PROBES: `environment::net::parsed[size > 0]=count` is not attached: this does not fit the probes, \
         column 1: `size` is not a field of any probe here; there is bytes at environment::net::parsed; thread and time \
         at all\n  \
         size > 0\n  \
         ^\n\
         probe               kind  sites  hits\n\
         environment::store  exit      1     1",
    );
    says(
        "environment::store, environment::net::accept=sum(n)",
        true,
        "PROBES: `environment::store, environment::net::accept=sum(n)` is not attached: this does not fit the \
         probes, column 5: `n` is not a field of any probe here; they record none, as `#[probe(args(n))]` does \
         of an argument; there is thread and time\n  \
         sum(n)\n  \
         \x20   ^",
    );
    says(
        "environment::net::parsed=sum(bytes",
        false,
        "Error: PROBES, column 35: `)` is missing here\n  \
         environment::net::parsed=sum(bytes\n  \
         \x20                                 ^",
    );
    says(
        "environment::net::parsed[bytes > 0]=profile",
        true,
        "PROBES: `environment::net::parsed[bytes > 0]=profile` is not attached: this consumer counts most calls \
         without looking at their fields, so it can't have a predicate",
    );
}

/// Types of fields are known where their sites are patched.
#[cfg(not(probe_portable))]
#[test]
fn types_are_checked() {
    says(
        "environment::net::parsed[bytes > \"a\"]=count",
        true,
        "PROBES: `environment::net::parsed[bytes > \"a\"]=count` is not attached: this does not fit the probes, \
         column 7: an integer can't be compared with text\n  \
         bytes > \"a\"\n  \
         \x20     ^",
    );
}
