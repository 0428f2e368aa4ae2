//! Threads that look for slots of dead owners, and a thread that takes such a slot and has the dead
//! owner's id: in every interleaving.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;

use super::{Owner, Ownership};

const ID: u32 = 7;

/// A slot whose owner has ended, and the kernel's knowledge.
struct World {
    slot: Ownership,
    /// Whether a thread with that id exists.
    exists: AtomicBool,
    given_back: AtomicUsize,
}

impl World {
    /// As `give_back_of_dead` does; `end` ends the ownership.
    fn give_back_of_dead(&self, end: fn(&Ownership, Owner) -> bool) {
        let owner = self.slot.now();
        if owner.asked_for().is_some() && !self.exists.load(Ordering::SeqCst) && end(&self.slot, owner) {
            self.slot.clear();
            self.given_back.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn two_find_it_and_one_takes_it(end: fn(&Ownership, Owner) -> bool) {
    loom::model(move || {
        let world = Arc::new(World {
            slot: Ownership::new(),
            exists: AtomicBool::new(false),
            given_back: AtomicUsize::new(0),
        });
        assert!(world.slot.take(ID));
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.give_back_of_dead(end))
        };
        let new = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                world.exists.store(true, Ordering::SeqCst);
                world.slot.take(ID)
            })
        };
        world.give_back_of_dead(end);
        other.join().unwrap();
        let is_taken = new.join().unwrap();
        let given_back = world.given_back.load(Ordering::Relaxed);
        assert!(given_back <= 1, "given back twice");
        assert_eq!(world.slot.now().is_thread(), is_taken || given_back == 0);
    });
}

#[test]
fn no_thread_takes_the_slot_from_the_next_owner() {
    two_find_it_and_one_takes_it(Ownership::end);
}

/// The model checker must find the fault if an owner is known only by its id.
#[test]
#[should_panic(expected = "given back twice")]
fn an_id_alone() {
    two_find_it_and_one_takes_it(|slot, owner| {
        let now = slot.now();
        now.asked_for() == owner.asked_for() && slot.end(now)
    });
}
