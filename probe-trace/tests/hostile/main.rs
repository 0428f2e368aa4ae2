//! Files that somebody has damaged, or made to do harm: reading and exporting keep their rules, and
//! cost memory and output in proportion to the file's length. A process of its own: it counts all
//! memory.

mod bounds;
mod judge;
mod made;
mod mutated;
mod shaped;
mod versions;
