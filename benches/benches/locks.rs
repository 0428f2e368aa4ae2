//! `locks`: a lock that is acquired and released, and a message that is sent and received, by one
//! thread: latent, counted, and with its times, beside the originals.

use std::hint::black_box;
use std::sync;

use probe_benches::{Case, IS_PATCHED, Scale, interleave, pin, timing};
use probe_runtime::{Count, Latency, select};
use probe_sync::{Mutex, crossbeam_channel, parking_lot};

#[inline(never)]
fn std_original(times: u64) {
    let lock = black_box(sync::Mutex::new(0));
    (0..times).for_each(|_| *lock.lock().unwrap() += 1);
}

#[inline(never)]
fn std_probed(times: u64) {
    let lock = black_box(Mutex::new(0));
    (0..times).for_each(|_| *lock.lock().unwrap() += 1);
}

#[inline(never)]
fn parking_lot_original(times: u64) {
    let lock = black_box(::parking_lot::Mutex::new(0));
    (0..times).for_each(|_| *lock.lock() += 1);
}

#[inline(never)]
fn parking_lot_probed(times: u64) {
    let lock = black_box(parking_lot::Mutex::new(0));
    (0..times).for_each(|_| *lock.lock() += 1);
}

#[inline(never)]
fn channel_original(times: u64) {
    let (sender, receiver) = black_box(::crossbeam_channel::bounded(8));
    for n in 0..times {
        sender.send(n).unwrap();
        black_box(receiver.recv().unwrap());
    }
}

#[inline(never)]
fn channel_probed(times: u64) {
    let (sender, receiver) = black_box(crossbeam_channel::bounded(8));
    for n in 0..times {
        sender.send(n).unwrap();
        black_box(receiver.recv().unwrap());
    }
}

fn tokio(lock: impl AsyncFnOnce()) {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(lock());
}

#[inline(never)]
fn tokio_original(times: u64) {
    tokio(async || {
        let lock = black_box(::tokio::sync::Mutex::new(0));
        for _ in 0..times {
            *lock.lock().await += 1;
        }
    });
}

#[inline(never)]
fn tokio_probed(times: u64) {
    tokio(async || {
        let lock = black_box(probe_sync::tokio::Mutex::new(0));
        for _ in 0..times {
            *lock.lock().await += 1;
        }
    });
}

fn main() -> Result<(), probe_runtime::Error> {
    if !IS_PATCHED {
        println!("sites are not patched in this build");
        return Ok(());
    }
    let scale = Scale::from_args();
    pin(0);
    let (times, rounds) = (scale.of(20_000), scale.of(200));
    let measure = |probes: &str| {
        let mut cases = [
            Case::new("std", times, std_original),
            Case::new("std-probed", times, std_probed),
            Case::new("parking_lot", times, parking_lot_original),
            Case::new("parking_lot-probed", times, parking_lot_probed),
            Case::new("tokio", times, tokio_original),
            Case::new("tokio-probed", times, tokio_probed),
            Case::new("channel", times, channel_original),
            Case::new("channel-probed", times, channel_probed),
        ];
        let medians = interleave(rounds, &mut cases);
        for original in ["std", "parking_lot", "tokio", "channel"] {
            timing(&format!("locks/{probes}"), &medians, &format!("{original}-probed"), original);
        }
    };
    measure("latent");
    let all = select("probe_sync::**")?;
    let counts = all.attach(Count::new())?;
    measure("counted");
    drop(counts);
    let latency = all.attach(Latency::new())?;
    measure("latency");
    drop(latency);
    Ok(())
}
