//! `wordpatch`: every split of every length, synchronous and asynchronous, through a trap or by one
//! write.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use probe_runtime::patch::TextPolicy;
use probe_runtime::patch::word::{Pending, Ticks, Wait, WordOptions, traps};

use super::arena::{Arena, Site, of_forms};
use super::executors::{Executors, Seen, while_executed};
use super::random::Random;
use super::scenario::{Done, Play};
use super::tally::Register;

/// Patches one instruction after the other, and waits for each patch with a barrier.
pub fn synchronous(play: &Play) -> Done {
    // A write takes a hundredth of the time of a patch that goes through a trap.
    toggle_each(play, false, Wait::Barrier, 40)
}

/// Patches through a trap, even if one write would do.
pub fn strict(play: &Play) -> Done {
    toggle_each(play, true, Wait::Barrier, 1)
}

/// Patches with waits by the clock.
pub fn timed(play: &Play) -> Done {
    toggle_each(play, false, Wait::Tmax(Ticks(100_000)), 1)
}

/// Toggles each instruction in turn; those in one word `aligned` times as often as the others.
fn toggle_each(play: &Play, strict: bool, wait: Wait, aligned: u64) -> Done {
    let (mut arena, mut sites) = of_forms(1);
    play.random.clone().shuffle(&mut sites);
    let _open = play.open(&arena);
    let options = WordOptions::new().strict(strict).wait(wait).text_policy(play.text);
    let weight = |site: &Site| if site.is_straddler() { 1 } else { aligned };
    let one = play.toggles / sites.iter().map(weight).sum::<u64>() + 1;
    let trapped = traps();
    let (toggles, seen) = while_executed(&arena.functions, play.executors, 1, |_, executors| {
        let toggle = |site: &Site| {
            // Odd, so that the new instruction is there in the end.
            let times = (one * weight(site)) | 1;
            let traps = strict || site.is_straddler() || play.text == TextPolicy::Alias;
            toggle_one(site, options, traps, times, executors);
            times
        };
        sites.iter().map(toggle).sum()
    });
    check(&mut arena, &sites, toggles, seen, traps() - trapped)
}

/// Toggles one instruction.
fn toggle_one(site: &Site, options: WordOptions, traps: bool, times: u64, executors: &Executors<'_>) {
    executors.focus(0, site.function);
    executors.settle();
    for number in 0..times {
        let is_new = number % 2 == 0;
        let (from, to) = (site.bytes(!is_new), site.bytes(is_new));
        // SAFETY: an instruction of the arena, which outlives the patch; it may hold both contents.
        unsafe {
            if number % 8 < 2 {
                assert!(options.replace(site.addr, from, to).unwrap(), "{site}");
            } else {
                options.patch(site.addr, to).unwrap();
            }
        }
        if number % 256 == 0 && traps {
            is_past(usize::from(!is_new), site, executors);
        } else if number % 256 == 1 {
            executors.settle();
        }
    }
    executors.settle();
}

/// Checks that no thread executes the old instruction after a patch through a trap has returned.
/// Executions are counted by the end of the executor's pass.
fn is_past(effect: usize, site: &Site, executors: &Executors<'_>) {
    executors.settle();
    let then = executors.seen(site.function, Register::Rax)[effect];
    executors.settle();
    let now = executors.seen(site.function, Register::Rax)[effect];
    assert_eq!(then, now, "{site}: executed after it was replaced");
}

/// Checks that each site has its new instruction at the end, and that executors saw both.
fn check(arena: &mut Arena, sites: &[Site], toggles: Vec<u64>, seen: Vec<Seen>, trapped: u64) -> Done {
    let mut done = Done { toggles: toggles.into_iter().sum(), ..Done::default() };
    done.count("traps", trapped);
    for site in sites {
        arena.expect(site.addr, &site.form.new);
        assert_eq!(arena.execute(site.function).seen(Register::Rax), [0, 1, 0], "{site}");
        done.add_seen(site.function, &["old", "new"], &seen[site.function].rax);
    }
    arena.assert_as_expected();
    done.seen = seen;
    done
}

/// Hundreds under way at once, finished in any order, by two threads.
pub fn asynchronous(play: &Play) -> Done {
    let (mut arena, sites) = of_forms(4);
    let _open = play.open(&arena);
    let options = WordOptions::new().text_policy(play.text);
    let batches = (play.toggles / sites.len() as u64 + 1) | 1;
    let trapped = traps();
    let (send, receive) = channel::<Vec<Pending>>();
    let (send_back, receive_back) = channel::<()>();
    let (send, receive_back) = (Mutex::new(Some(send)), Mutex::new(receive_back));
    let (receive, send_back) = (Mutex::new(receive), Mutex::new(Some(send_back)));
    let (toggles, seen) = while_executed(&arena.functions, play.executors, 2, |patcher, executors| {
        let mut random = play.random.clone();
        if patcher == 1 {
            let back = send_back.lock().unwrap().take().unwrap();
            receive.lock().unwrap().iter().for_each(|mut half| {
                finish(&mut half, &mut random);
                back.send(()).unwrap();
            });
            return 0;
        }
        let send = send.lock().unwrap().take().unwrap();
        let back = receive_back.lock().unwrap();
        executors.settle();
        (0..batches)
            .map(|batch| start_all(options, &sites, batch, &mut random, &send, &back, executors))
            .sum()
    });
    check(&mut arena, &sites, toggles, seen, traps() - trapped)
}

/// Starts all patches, has another thread finish half of them, and finishes the others.
fn start_all(
    options: WordOptions,
    sites: &[Site],
    batch: u64,
    random: &mut Random,
    send: &Sender<Vec<Pending>>,
    back: &Receiver<()>,
    executors: &Executors<'_>,
) -> u64 {
    let mut order: Vec<_> = sites.iter().collect();
    random.shuffle(&mut order);
    // SAFETY: instructions of the arena, which outlives the patches; each is one that it may hold.
    let start =
        |site: &&Site| unsafe { options.start(site.addr, site.bytes(batch.is_multiple_of(2))) }.unwrap();
    let mut pending: Vec<_> = order.iter().map(start).collect();
    send.send(pending.split_off(pending.len() / 2)).unwrap();
    finish(&mut pending, random);
    back.recv().unwrap();
    if batch.is_multiple_of(64) {
        executors.settle();
    }
    sites.len() as u64
}

/// Finishes patches step by step, in any order; some are dropped instead.
fn finish(pending: &mut Vec<Pending>, random: &mut Random) {
    while !pending.is_empty() {
        random.shuffle(pending);
        let dropped = pending.len() / 16;
        pending.truncate(pending.len() - dropped);
        pending.retain_mut(|patch| !patch.finish());
    }
}
