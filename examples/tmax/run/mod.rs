//! The program on targets that patch instructions: from the command line to the table and the
//! chart.

mod args;
mod chart;
mod child;
mod matrix;
mod report;
mod site;
mod trial;

use std::error::Error;
use std::io::{IsTerminal, Write, stderr, stdout};

use args::{Asked, Plan};
use matrix::Row;
use probe_benches::ticks::ticks_per_second;
use probe_benches::{plot, processors};

pub fn run() -> Result<(), Box<dyn Error>> {
    let plan = match args::parse()? {
        Asked::Help => {
            print!("{}", args::HELP);
            return Ok(());
        }
        Asked::Child(trial) => return child::run(trial),
        Asked::Matrix(plan) => plan,
    };
    let machine = report::Machine::here(ticks_per_second());
    report::introduce(&plan, &machine);
    let reference = if processors() > 1 { matrix::reference(&plan)? } else { None };
    report::print_head(&plan);
    let mut rows = Vec::new();
    for delay in plan.delays() {
        let row = matrix::row(&plan, delay, progress)?;
        report::print_row(&plan, &row);
        rows.push(row);
    }
    report::conclude(&plan, &machine, &rows, reference.as_ref());
    draw(&plan, &machine, &rows, reference.as_ref())
}

/// On a terminal, shows the number of the current run; the row then overwrites it.
fn progress(done: usize, all: usize) {
    if stdout().is_terminal() && stderr().is_terminal() {
        eprint!(
            "\r{}\r",
            if done == all { String::from("            ") } else { format!("{done} of {all} …") }
        );
        let _ = stderr().flush();
    }
}

fn draw(
    plan: &Plan,
    machine: &report::Machine,
    rows: &[Row],
    reference: Option<&trial::Visibility>,
) -> Result<(), Box<dyn Error>> {
    let (title, subtitle, panels) = chart::panels(plan, machine, rows, reference);
    let path = &plan.svg;
    plot::save(path, &title, &subtitle, &panels)
        .map_err(|error| format!("can't write {}: {error}; name another file with --svg", path.display()))?;
    println!("\nThe chart is in {}.", path.display());
    Ok(())
}
